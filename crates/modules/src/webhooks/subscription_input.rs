//! Requests that make and change subscriptions.

use std::collections::BTreeMap;

use backstitch::{Problem, Problems};
use backstitch_api::validate::schema::{Components, collect, map_of_texts, of, set_of, text};
use backstitch_api::validate::{
    AttemptTimeout, Bounded, Delay, Input, Node, Omittable, Setting, ValidationErrors, quoted,
};
use backstitch_api::{request, text_type};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::egress::{Endpoint, MAX_ADDRESS};
use super::event_type::{MAX_TYPE, check_patterns, check_type_text};
use super::headers::{self, Headers};
use super::signature::Secret;
use super::subscription::{Defaulted, Terms};
use crate::http_url::HTTP_URL_PATTERN;

/// Shown instead of a header's value.
pub const MASK: &str = "***";
/// The fields that a new subscription must have.
const REQUIRED: [&str; 2] = ["url", "event_types"];
const SECRET: &str = "secret";
const EVENT_TYPE: &str = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$";
const EVENT_PATTERN: &str = r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$";
/// `whsec_` and the base64 of 24 to 64 bytes.
const SIGNING_SECRET: &str = r"^whsec_(([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?|([A-Za-z0-9+/]{4}){21}([A-Za-z0-9+/][AQgw]==)?)$";

/// Attempts of a delivery in all.
pub(super) type RetryLimit = Bounded<u32, 1, 1_000>;
/// Requests at once.
pub(super) type Concurrency = Bounded<u32, 1, 10_000>;
/// Requests a second.
pub(super) type RateLimit = Bounded<u32, 1, 1_000_000>;

request! {
    /// A new subscription.
    @derive(Default, PartialEq, Eq)
    pub struct SubscriptionInput as "NewSubscription" example { "url": "http://127.0.0.1:7431/hooks", "event_types": ["order.*"] } {
        /// The endpoint: http or https, without a user or password. Private addresses are refused unless the operator allows them.
        pub url: Omittable<EndpointUrl>,
        /// The events: types, `order.*` for everything below `order`, or `*` for all, each once.
        pub event_types: Omittable<EventPatterns>,
        /// All headers of its own, such as a key of the receiver.
        pub headers: Omittable<SubscriptionHeaders>,
        /// Attempts of a delivery in all; `null` follows the setting `webhooks.max_retry_limit`, usually 8.
        pub max_retry_limit: Setting<RetryLimit>,
        /// The wait after the first failure, which doubles with each further one, 30 days at most; `null` follows the
        /// setting `webhooks.base_delay`, usually 5s.
        pub base_delay: Setting<Delay>,
        /// The longest wait, 30 days at most; `null` follows the setting `webhooks.max_delay`, usually 1h.
        pub max_delay: Setting<Delay>,
        /// How long an attempt may take; usually 15s, 1h at most.
        pub timeout: Omittable<AttemptTimeout>,
        /// Requests at once; usually 16.
        pub max_concurrency: Omittable<Concurrency>,
        /// Requests a second; `null` removes the limit. Usually there is none.
        pub rate_limit: Setting<RateLimit>,
        /// Whether deliveries are sent; usually they are. Deliveries of a disabled subscription wait; events are still routed to it.
        pub enabled: Omittable<bool>,
        /// A signing secret that the receiver already has, `whsec_` and base64 of 24 to 64 bytes; generated unless given.
        pub secret: Omittable<Secret>,
    }
}

/// A new subscription.
#[derive(Clone, Debug)]
pub struct NewSubscription(pub SubscriptionInput);

impl Input for NewSubscription {
    fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.object(SubscriptionInput::FIELDS)?;
        for name in REQUIRED.into_iter().filter(|name| !object.has(name)) {
            object.missing(name);
        }
        SubscriptionInput::read_fields(&object).map(Self)
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }
}

impl PartialSchema for NewSubscription {
    fn schema() -> RefOr<Schema> {
        let mut schema = <SubscriptionInput as PartialSchema>::schema();
        if let RefOr::T(Schema::Object(new)) = &mut schema {
            new.required = REQUIRED.map(str::to_owned).into();
        }
        schema
    }
}

impl ToSchema for NewSubscription {
    fn name() -> std::borrow::Cow<'static, str> {
        SubscriptionInput::name()
    }

    fn schemas(components: &mut Components) {
        SubscriptionInput::schemas(components);
    }
}

/// A change of a subscription: fields that are left out stay as they are.
#[derive(Clone, Debug)]
pub struct SubscriptionChange(pub SubscriptionInput);

impl Input for SubscriptionChange {
    fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.object(SubscriptionInput::FIELDS)?;
        if let Some(secret) = object.get(SECRET) {
            secret.wrong("is changed by rotate-secret, so that the old one stays valid for a while");
        }
        SubscriptionInput::read_fields(&object).map(Self)
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }
}

impl PartialSchema for SubscriptionChange {
    fn schema() -> RefOr<Schema> {
        let mut schema = <SubscriptionInput as PartialSchema>::schema();
        if let RefOr::T(Schema::Object(change)) = &mut schema {
            change.description =
                Some("A change of a subscription: fields that are left out stay as they are.".to_owned());
            change.properties.remove(SECRET);
            change.examples = vec![serde_json::json!({ "enabled": true })];
        }
        schema
    }
}

impl ToSchema for SubscriptionChange {
    fn schemas(components: &mut Components) {
        SubscriptionInput::schemas(components);
    }
}

impl SubscriptionInput {
    /// Whether it has a field besides `enabled` and `secret`.
    pub(super) fn names_terms(&self) -> bool {
        Self { enabled: Omittable(None), secret: Omittable(None), ..self.clone() } != Self::default()
    }

    /// The headers as they are written, unless they are left out.
    pub(super) fn headers(&self) -> Option<&[(String, String)]> {
        self.headers.0.as_ref().map(|SubscriptionHeaders(headers)| headers.as_slice())
    }

    /// These terms with its changes; `defaults` has the configured ones.
    pub(super) fn over(&self, before: Terms, defaults: &Terms) -> Terms {
        let defaulted = before.defaulted;
        let limit = (before.max_retry_limit, defaulted.max_retry_limit);
        let limit = own_or_default(self.max_retry_limit, |it| it.0, limit, defaults.max_retry_limit);
        let base = (before.base_delay, defaulted.base_delay);
        let base = own_or_default(self.base_delay, |it| it.0, base, defaults.base_delay);
        let longest = (before.max_delay, defaulted.max_delay);
        let longest = own_or_default(self.max_delay, |it| it.0, longest, defaults.max_delay);
        Terms {
            url: self.url.0.as_ref().map_or(before.url, |EndpointUrl(url)| url.clone()),
            event_types: self.event_types.0.as_ref().map_or(before.event_types, |types| types.0.clone()),
            max_retry_limit: limit.0,
            base_delay: base.0,
            max_delay: longest.0,
            defaulted: Defaulted { max_retry_limit: limit.1, base_delay: base.1, max_delay: longest.1 },
            timeout: self.timeout.0.map_or(before.timeout, |timeout| timeout.0),
            max_concurrency: self.max_concurrency.0.map_or(before.max_concurrency, |limit| limit.0),
            rate_limit: match self.rate_limit {
                Setting::Unchanged => before.rate_limit,
                Setting::Reset => None,
                Setting::Own(limit) => Some(limit.0),
            },
        }
    }
}

/// The value of a setting, and whether it is the default's.
fn own_or_default<T, V>(
    setting: Setting<T>,
    value: impl FnOnce(T) -> V,
    before: (V, bool),
    default: V,
) -> (V, bool) {
    match setting {
        Setting::Unchanged => before,
        Setting::Reset => (default, true),
        Setting::Own(own) => (value(own), false),
    }
}

text_type! {
    /// What kind of thing happened: words of letters, digits, `-` and `_` with dots between.
    EventType EVENT_TYPE, 1, MAX_TYPE, "order.created", check_type_text;
    /// `http` or `https`, with a host, without user, password or fragment.
    EndpointUrl HTTP_URL_PATTERN, 8, MAX_ADDRESS, "http://127.0.0.1:7431/hooks", check_url;
}

/// Where the operator allows webhooks to go is checked later.
fn check_url(url: &str) -> Result<(), String> {
    Endpoint::read(url).map(drop).map_err(|problems| problems.join("; "))
}

/// The schema of a pattern of event types.
struct EventPattern;

impl PartialSchema for EventPattern {
    fn schema() -> RefOr<Schema> {
        let about = "A type of events, `order.*` for everything below `order`, or `*` for all.";
        text(EVENT_PATTERN, 1, MAX_TYPE).description(Some(about)).examples(["order.*"]).into()
    }
}

impl ToSchema for EventPattern {}

/// The events of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPatterns(pub Vec<String>);

impl Input for EventPatterns {
    fn read(node: &Node<'_>) -> Option<Self> {
        let patterns: Vec<_> = node.items()?.iter().map(Node::text).collect();
        let patterns = patterns.into_iter().collect::<Option<Vec<_>>>()?;
        check_patterns(&patterns).map_err(|why| node.wrong(why)).ok()?;
        Some(Self(patterns))
    }

    fn schema() -> RefOr<Schema> {
        let patterns = set_of::<EventPattern>("").min_items(Some(1_usize));
        patterns.examples([serde_json::json!(["order.*"])]).into()
    }

    fn collect(components: &mut Components) {
        collect::<EventPattern>(components);
    }
}

/// Headers of a subscription. Their values may be secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SubscriptionHeaders(pub Vec<(String, String)>);

impl std::fmt::Debug for SubscriptionHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Input for SubscriptionHeaders {
    fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.any_object()?;
        let mut texts = BTreeMap::new();
        let mut all_read = true;
        for (name, value) in object.entries() {
            match value.text() {
                Some(text) if text == MASK => {
                    value.wrong(format!(
                        "is `{MASK}`, which is shown instead of a value: give the value itself"
                    ));
                    all_read = false;
                }
                Some(text) => {
                    texts.insert(name.to_owned(), text);
                }
                None => all_read = false,
            }
        }
        for headers::Mistake { name, message } in Headers::check(&texts).err().unwrap_or_default() {
            all_read = false;
            let header = object.entries().find(|(written, _)| !name.is_empty() && quoted(written) == name);
            header.as_ref().map_or(node, |(_, header)| header).wrong(message);
        }
        all_read.then(|| Self(texts.into_iter().collect()))
    }

    fn schema() -> RefOr<Schema> {
        of::<HeaderMap>().into()
    }

    fn collect(components: &mut Components) {
        collect::<HeaderMap>(components);
    }
}

/// The schema of headers.
struct HeaderMap;

impl PartialSchema for HeaderMap {
    fn schema() -> RefOr<Schema> {
        let names = text(headers::NAME_PATTERN, 1, headers::MAX_NAME);
        let values = text(headers::VALUE_PATTERN, 0, headers::MAX_BYTES);
        map_of_texts("Headers by name, 8 KiB together.", names, values, headers::MAX_HEADERS)
    }
}

impl ToSchema for HeaderMap {}

impl Input for Secret {
    fn read(node: &Node<'_>) -> Option<Self> {
        Self::parse(&node.text()?).map_err(|why| node.wrong(why.to_string())).ok()
    }

    fn schema() -> RefOr<Schema> {
        of::<SigningSecret>().into()
    }

    fn collect(components: &mut Components) {
        collect::<SigningSecret>(components);
    }
}

/// The schema of a signing secret.
struct SigningSecret;

impl PartialSchema for SigningSecret {
    fn schema() -> RefOr<Schema> {
        let secret = text(SIGNING_SECRET, 38, 94).examples(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
        secret.description(Some("A signing secret: `whsec_` and base64 of 24 to 64 bytes.")).into()
    }
}

impl ToSchema for SigningSecret {}

/// The errors of a request, and those of further checks that do not follow from them.
pub(super) fn all_errors(Problems(unread): &Problems, more: Vec<Problem>) -> Vec<Problem> {
    let errors = ValidationErrors::of("body");
    for Problem { place, message } in unread {
        errors.add(place, message);
    }
    errors.add_unless_known(Problems(more));
    errors.into_problems().0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstitch_api::validate::{Partial, read_partially};
    use serde_json::{Value, json};

    use super::super::error::BadTerms;
    use super::*;

    /// What could be read, and the errors.
    type Written = (SubscriptionInput, Problems);

    fn paths((_, errors): &Written) -> Vec<String> {
        errors.0.iter().map(|problem| problem.place.clone()).collect()
    }

    fn new(written: &Value) -> Written {
        let Partial { value, errors } = read_partially::<NewSubscription>(&written.to_string(), "body");
        (value.unwrap().0, errors)
    }

    fn change(written: &Value) -> Written {
        let Partial { value, errors } = read_partially::<SubscriptionChange>(&written.to_string(), "body");
        (value.unwrap().0, errors)
    }

    #[test]
    fn a_new_subscription_names_what_differs_from_the_usual() {
        let usual = Terms::to("", Vec::new());
        let written = new(&json!({ "url": "https://a.example/", "event_types": ["order.*"] }));
        assert_eq!(paths(&written), [""; 0]);
        assert_eq!(
            written.0.over(usual.clone(), &usual),
            Terms::to("https://a.example/", vec!["order.*".to_owned()])
        );
        let written = new(&json!({
            "url": "https://a.example/", "event_types": ["*"], "headers": { "x-a": "b" }, "max_retry_limit": 3,
            "base_delay": "200ms", "max_delay": 2.5, "timeout": 7, "max_concurrency": 2, "rate_limit": 9, "enabled": false,
            "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        }));
        assert_eq!(paths(&written), [""; 0]);
        let terms = Terms {
            max_retry_limit: 3,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_millis(2500),
            timeout: Duration::from_secs(7),
            max_concurrency: 2,
            rate_limit: Some(9),
            ..Terms::to("https://a.example/", vec!["*".to_owned()])
        };
        let (input, _) = written;
        assert_eq!(input.over(usual.clone(), &usual), terms);
        assert_eq!(input.headers(), Some(&[("x-a".to_owned(), "b".to_owned())][..]));
        assert!(input.enabled.0 == Some(false) && input.secret.0.is_some());
    }

    #[test]
    fn a_change_keeps_what_it_leaves_out_and_null_removes_the_rate() {
        let before = Terms { rate_limit: Some(9), ..Terms::to("https://a.example/", vec!["*".to_owned()]) };
        let (only, _) = change(&json!({ "enabled": true }));
        assert!(!only.names_terms());
        assert_eq!(only.over(before.clone(), &before), before);
        let (faster, _) = change(&json!({ "rate_limit": null }));
        assert!(faster.names_terms());
        assert_eq!(faster.over(before.clone(), &before), Terms { rate_limit: None, ..before });
    }

    #[test]
    fn null_follows_the_default_and_the_rest_stays() {
        let usual = Terms { max_retry_limit: 5, ..Terms::to("", Vec::new()) };
        let before = Terms {
            max_retry_limit: 3,
            base_delay: Duration::from_secs(1),
            ..Terms::to("https://a.example/", vec!["*".to_owned()])
        };
        let (reset, _) = change(&json!({ "max_retry_limit": null }));
        assert!(reset.names_terms());
        let after = reset.over(before.clone(), &usual);
        let defaulted = Defaulted { max_retry_limit: true, ..Defaulted::default() };
        assert_eq!(after, Terms { max_retry_limit: 5, defaulted, ..before.clone() });
        let own = change(&json!({ "max_retry_limit": 3 })).0.over(after, &usual);
        assert_eq!(own, before);
    }

    #[test]
    fn every_error_is_reported_with_its_path() {
        let written = new(&json!({
            "event_types": ["a", 7], "headers": { "x": 1 }, "max_retry_limit": -1, "base_delay": "soon", "max_delay": [],
            "timeout": null, "max_concurrency": 1.5, "rate_limit": "x", "enabled": "yes", "secret": "hush", "ulr": "x",
        }));
        let mut found = paths(&written);
        found.sort();
        let expected = [
            "base_delay",
            "enabled",
            "event_types[1]",
            "headers.x",
            "max_concurrency",
            "max_delay",
            "max_retry_limit",
            "rate_limit",
            "secret",
            "timeout",
            "ulr",
            "url",
        ];
        assert_eq!(found, expected);
        let told = format!("{:?}", written.1);
        assert!(told.contains("did you mean `url`?") && !told.contains("hush"), "{told}");
        assert_eq!(paths(&new(&json!({}))), ["url", "event_types"]);
    }

    #[test]
    fn quotes_in_values_are_repeated_unescaped() {
        for (field, written) in
            SubscriptionInput::FIELDS.iter().flat_map(|field| ["\"x\"", "it's"].map(|text| (*field, text)))
        {
            let value = match field {
                "event_types" => json!([written]),
                "headers" => json!({ written: 7 }),
                _ => json!(written),
            };
            let (input, errors) =
                new(&json!({ "url": "https://a.example/", "event_types": ["*"], field: value }));
            let usual = Terms::to("", Vec::new());
            let more = input.over(usual.clone(), &usual).check().err().map(|BadTerms(wrong)| wrong);
            for Problem { place, message } in all_errors(&errors, more.unwrap_or_default()) {
                let told = format!("{place}: {message}");
                assert!(!told.contains("\\\"") && !told.contains("\\'"), "{field}: {told}");
            }
        }
    }

    #[test]
    fn errors_that_follow_from_others_are_left_out() {
        let more = ["url", "headers.x", "timeout"]
            .map(|place| Problem { place: place.to_owned(), message: String::new() });
        let (_, errors) = new(&json!({ "event_types": ["*"], "headers": [] }));
        let found = all_errors(&errors, more.to_vec());
        let mut found: Vec<&str> = found.iter().map(|problem| problem.place.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, ["headers", "timeout", "url"]);
    }

    #[test]
    fn the_mask_is_no_value_and_a_secret_is_rotated_not_changed() {
        assert_eq!(paths(&change(&json!({ "headers": { "x": MASK } }))), ["headers.x"]);
        let (_, Problems(told)) = change(&json!({ "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }));
        assert!(told.len() == 1 && told[0].message.contains("rotate-secret"), "{told:?}");
        assert_eq!(paths(&change(&json!({ "enabld": true }))), ["enabld"]);
    }
}
