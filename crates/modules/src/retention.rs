//! What the retention areas of products share.

use std::time::Duration;

use backstitch::retention::NotPruned;
use backstitch::{Timestamp, store};

/// What is wrong with a row that was read and makes no sense: it is in no other row's way.
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
