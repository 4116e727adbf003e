//! What was just done: a form leads back to a page, which says so once.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::http::Query;
use crate::problem::Problem;

macro_rules! done {
    ($($done:ident $name:literal $told:literal;)*) => {
        /// What somebody has just done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Done {
            $(#[doc = $told] $done,)*
        }

        impl Done {
            const ALL: &[Self] = &[$(Self::$done,)*];

            fn name(self) -> &'static str {
                match self { $(Self::$done => $name,)* }
            }

            /// What they are told.
            pub(crate) fn told(self) -> &'static str {
                match self { $(Self::$done => $told,)* }
            }
        }
    };
}

done! {
    Cancelled "cancelled" "The saga will be rolled back.";
    Paused "paused" "The saga starts nothing new until it is resumed.";
    Resumed "resumed" "The saga goes on.";
    Resolved "resolved" "The rollback goes on.";
    Applied "applied" "The staged version is active: whatever begins from now on takes it.";
    Discarded "discarded" "What was staged is discarded.";
    Staged "staged" "The change is staged: look at it, then apply or discard it.";
    Requeued "requeued" "It will be delivered anew.";
    Retried "retried" "It will be sent again.";
    Moved "moved" "It has moved on.";
    Failed "failed" "It has failed, as you said.";
    Abandoned "abandoned" "It is abandoned: nothing follows.";
    Started "started" "It was started.";
    Acknowledged "acknowledged" "The alert is acknowledged.";
    Enabled "enabled" "The endpoint is enabled: what waited for it is sent.";
    Disabled "disabled" "The endpoint is disabled: what comes is kept for it.";
    TriedAgain "tried-again" "It is tried again now. If the database rejects it again, it is listed again.";
    ConflictRemoved "conflict-removed" "The conflicting dead letter is removed and recorded in the audit. The item is tried again now.";
    ConflictRemovedOnly "conflict-removed-only" "The conflicting dead letter is removed and recorded in the audit. The item could not be retried: retry it, or wait for its next try.";
    Replayed "replayed" "The events of that time are sent once more.";
}

impl Done {
    /// Back to this page, which then says so. A reload sends no form again.
    pub(crate) fn and_back_to(self, place: &str) -> Response {
        let mark = if place.contains('?') { '&' } else { '?' };
        see_other(&format!("{place}{mark}done={}", self.name()))
    }

    /// What a page is to say.
    pub(crate) fn asked(query: &mut Query) -> Result<Option<Self>, Problem> {
        let read = |text: &str| Self::ALL.iter().copied().find(|done| done.name() == text);
        query.read("done", read, "leave it out")
    }
}

/// Leads to another page.
pub(crate) fn see_other(place: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}
