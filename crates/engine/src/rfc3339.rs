//! Times as they are written outside: RFC 3339, UTC.

use std::fmt;

use backstitch_kernel::Timestamp;
use serde::{Serialize, Serializer};

/// A time as other programs read it.
///
/// ```
/// use backstitch::{Rfc3339, Timestamp};
///
/// assert_eq!(Rfc3339(Timestamp::from_micros(250_000)).to_string(), "1970-01-01T00:00:00.250000Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rfc3339(pub Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0.as_micros()) {
            Ok(at) => write!(f, "{at:.6}"),
            // Beyond what calendars go to; the number still tells it.
            Err(_) => write!(f, "{}", self.0.as_micros()),
        }
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
