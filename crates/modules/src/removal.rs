//! What products share when they remove what is over.

use std::time::Duration;

use backstitch::retention::NotPruned;
use backstitch::{Timestamp, store};
use serde::Serialize;

/// A document to be exported.
pub(crate) fn line(document: &impl Serialize) -> Result<String, NotPruned> {
    serde_json::to_string(document).map_err(|why| NotPruned::Export(format!("it has no JSON form: {why}")))
}

/// What is wrong with a row that was read and makes no sense: it is in nobody else's way.
pub(crate) fn misread(why: store::Error) -> NotPruned {
    match why {
        store::Error::Refused(why) => NotPruned::Unreadable(why),
        other => other.into(),
    }
}

/// The last moment that is old enough.
pub(crate) fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(age).max(0))
}
