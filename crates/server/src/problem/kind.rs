//! The kinds of problems there are. Their names are part of the contract, and each has a page in `docs/errors`.

use axum::http::StatusCode;

macro_rules! kinds {
    ($($kind:ident $name:literal $status:ident $title:literal;)*) => {
        /// A kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = $title] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Its name, as in the address of its page.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Its `type`: where its page is.
            pub(crate) fn uri(self) -> &'static str {
                match self { $(Self::$kind => concat!("/docs/errors/", $name),)* }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status,)* }
            }

            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$kind => $title,)* }
            }

            /// What its page says.
            pub(crate) fn page(self) -> &'static str {
                match self {
                    $(Self::$kind => include_str!(concat!("../../../../docs/errors/", $name, ".md")),)*
                }
            }
        }
    };
}

kinds! {
    BadJson "bad-json" BAD_REQUEST "The body is not JSON";
    JsonTooDeep "json-too-deep" BAD_REQUEST "The body is nested too deeply";
    BadQuery "bad-query" BAD_REQUEST "A query parameter is invalid";
    BadId "bad-id" BAD_REQUEST "The id is invalid";
    BadHeader "bad-header" BAD_REQUEST "A header is invalid";
    Unauthenticated "unauthenticated" UNAUTHORIZED "An API key is needed";
    Forbidden "forbidden" FORBIDDEN "The API key does not suffice";
    NotFound "not-found" NOT_FOUND "There is nothing here";
    SagaNotFound "saga-not-found" NOT_FOUND "There is no such saga";
    DefinitionNotFound "definition-not-found" NOT_FOUND "There is no such definition";
    JobNotFound "job-not-found" NOT_FOUND "There is no such job";
    MessageNotFound "message-not-found" NOT_FOUND "There is no such message";
    AlertNotFound "alert-not-found" NOT_FOUND "There is no such alert";
    ParkedItemNotFound "parked-item-not-found" NOT_FOUND "There is no such parked item";
    OrderNotFound "order-not-found" NOT_FOUND "There is no such order";
    SubscriptionNotFound "subscription-not-found" NOT_FOUND "There is no such subscription";
    EventNotFound "event-not-found" NOT_FOUND "There is no such event";
    DeliveryNotFound "delivery-not-found" NOT_FOUND "There is no such delivery";
    DeadLetterNotFound "dead-letter-not-found" NOT_FOUND "There is no such dead letter";
    MachineNotFound "machine-not-found" NOT_FOUND "There is no such machine";
    LifecycleNotFound "lifecycle-not-found" NOT_FOUND "There is no such lifecycle";
    StepNotFound "step-not-found" NOT_FOUND "There is no such step";
    MethodNotAllowed "method-not-allowed" METHOD_NOT_ALLOWED "The method is not allowed here";
    RequestTimeout "request-timeout" REQUEST_TIMEOUT "The request took too long to arrive";
    IdempotencyConflict "idempotency-conflict" CONFLICT "The idempotency key belongs to another request";
    SagaEnded "saga-ended" CONFLICT "The saga has ended";
    StateForbids "state-forbids" CONFLICT "The saga's state forbids it";
    LifecycleEnded "lifecycle-ended" CONFLICT "The lifecycle has ended";
    LifecycleNotPaused "lifecycle-not-paused" CONFLICT "The lifecycle is in no pause state";
    NoSuchEdge "no-such-edge" CONFLICT "The machine has no such edge";
    NothingApplied "nothing-applied" CONFLICT "No version of the machine is active";
    StaleForm "stale-form" CONFLICT "What the page showed has changed";
    ForeignForm "foreign-form" FORBIDDEN "The form was not sent by the console";
    SessionEnded "session-ended" UNAUTHORIZED "The session has ended";
    Raced "raced" CONFLICT "A concurrent change came first";
    VersionTaken "version-taken" CONFLICT "The definition's version is taken";
    NameTaken "name-taken" CONFLICT "The name belongs to something else";
    NothingStaged "nothing-staged" CONFLICT "Nothing is staged";
    StaleLease "stale-lease" CONFLICT "The lease has expired or the work is no longer needed";
    SecretRotating "secret-rotating" CONFLICT "The previous secret is still valid";
    MessageNotAborted "message-not-aborted" CONFLICT "The message is not aborted";
    NoConflict "no-conflict" CONFLICT "No conflicting row is known";
    OrdersNotConfigured "orders-not-configured" CONFLICT "Order services are not configured";
    WebhooksNotConfigured "webhooks-not-configured" CONFLICT "Webhooks need the server's secret";
    TooLarge "too-large" PAYLOAD_TOO_LARGE "The request is too large";
    UnsupportedMediaType "unsupported-media-type" UNSUPPORTED_MEDIA_TYPE "The content type is not supported";
    InvalidFields "invalid-fields" UNPROCESSABLE_ENTITY "The body has invalid fields";
    UnknownDefinition "unknown-definition" UNPROCESSABLE_ENTITY "No saga of this name is known";
    UnknownTopic "unknown-topic" UNPROCESSABLE_ENTITY "The topic has no route";
    TooManyRequests "too-many-requests" TOO_MANY_REQUESTS "Too many requests";
    Internal "internal" INTERNAL_SERVER_ERROR "Internal error";
    Unavailable "unavailable" SERVICE_UNAVAILABLE "The database is unavailable";
    KeyHeld "key-held" SERVICE_UNAVAILABLE "Another transaction has the idempotency key";
    ShuttingDown "shutting-down" SERVICE_UNAVAILABLE "The server is shutting down";
    TooManyConnections "too-many-connections" SERVICE_UNAVAILABLE "The server has too many connections";
}

impl Kind {
    /// The kind of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_page_and_every_page_its_kind() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let mut pages: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(".md", ""))
            .collect();
        pages.sort();
        let mut kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, pages);
    }

    #[test]
    fn every_page_names_its_status_and_says_what_to_do() {
        for kind in Kind::ALL {
            let page = kind.page();
            assert!(page.contains(&format!("Status {}", kind.status().as_u16())), "{}", kind.name());
            assert!(page.contains("## What to do"), "{}", kind.name());
        }
    }
}
