//! From what went wrong with webhooks to what is said outside.

use backstitch::Problems;
use backstitch_modules::webhooks::{BadTerms, Error};

use crate::problem::{Kind, Problem};
use backstitch_api::time::rfc3339;

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let said = error.to_string();
        match error {
            Error::Store(why) => Self::of_store(&why),
            Error::Batch(why) => Self::of_store(&why),
            Error::Closed => Self::shutting_down(),
            Error::Conflict { event, at } => {
                let at = rfc3339(at);
                let detail = format!(
                    "the id was first used for another event, number {event}, at {at}: send that one again, or use a new \
                     id for a new event"
                );
                Self::new(Kind::IdempotencyConflict, detail).with("event_id", &event).with("first_at", &at)
            }
            Error::Invalid { field, why } => Self::field(field, why),
            Error::Terms(BadTerms(problems)) => Self::invalid(Problems(problems)),
            Error::UnknownSubscription(id) => {
                let detail = format!("{said}; GET /v1/webhooks/subscriptions lists them");
                Self::new(Kind::SubscriptionNotFound, detail).with("subscription_id", &id)
            }
            Error::Rotating { until, .. } => {
                let until = rfc3339(until);
                let detail = format!(
                    "the secret before is good until {until}, and receivers may still check with it: wait until then, or \
                     send `\"replace\": true`, which ends it now"
                );
                Self::new(Kind::SecretRotating, detail).with("until", &until)
            }
            Error::ChangedMeanwhile(_) => Self::new(Kind::Raced, said),
            Error::UnknownDelivery(_) => {
                Self::new(Kind::DeliveryNotFound, format!("{said}; GET /v1/webhooks/deliveries lists them"))
            }
            Error::UnknownDeadLetter(_) => Self::new(
                Kind::DeadLetterNotFound,
                format!("{said}; GET /v1/webhooks/dead-letters lists them"),
            ),
            _ => {
                tracing::error!(%said, "webhooks cannot be used");
                Self::internal()
            }
        }
    }
}
