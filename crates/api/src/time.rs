//! Times as they are read and written outside: RFC 3339, UTC.

use std::fmt;
use std::str::FromStr;

use backstitch::{Rfc3339, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time in an answer or a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time(pub Timestamp);

/// This time in RFC 3339.
#[must_use]
pub fn rfc3339(at: Timestamp) -> Time {
    Time(at)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rfc3339(self.0).fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            serde::de::Error::custom(format!(
                "`{text}` is not a time: write it in RFC 3339, like 2030-01-31T12:00:00Z"
            ))
        })
    }
}

impl FromStr for Time {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        let at: jiff::Timestamp = text.parse()?;
        Ok(Self(Timestamp::from_micros(at.as_microsecond())))
    }
}

impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .description(Some("A time in RFC 3339, UTC."))
            .into()
    }
}

impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Time, String> {
        serde_json::from_value(text.into()).map_err(|why| why.to_string())
    }

    #[test]
    fn a_time_is_written_in_utc_and_read_with_any_offset() {
        let at = read("2030-01-31T14:00:00.25+02:00").unwrap();
        assert_eq!(at.to_string(), "2030-01-31T12:00:00.250000Z");
        assert_eq!(read(&at.to_string()).unwrap(), at);
    }

    #[test]
    fn what_is_no_time_is_refused_with_an_example() {
        for text in ["tomorrow", "2030-01-31", "2030-01-31T12:00:00", "2030-02-31T12:00:00Z", ""] {
            assert!(read(text).unwrap_err().contains("RFC 3339"), "{text}");
        }
    }
}
