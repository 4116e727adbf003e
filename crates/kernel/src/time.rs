//! Points in time, which the kernel receives and never reads from a clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `micros` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This point moved by `delay`, saturating.
    #[must_use]
    pub fn plus(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The point this long before, saturating.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The duration since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Serialises durations as text: `200ms`, `30s`, `1h 30m`.
pub(crate) mod text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }

    fn parse<E: serde::de::Error>(text: &str) -> Result<Duration, E> {
        crate::parse_duration(text).map_err(|why| {
            E::custom(format!("`{text}` is not a duration ({why}): write it like 200ms, 30s or 5m"))
        })
    }

    /// The same for an optional duration.
    pub(crate) mod option {
        use super::{Deserialize, Deserializer, Duration, Serializer};

        #[expect(clippy::ref_option, reason = "serde calls it with a reference")]
        pub(crate) fn serialize<S: Serializer>(
            value: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Option::<String>::deserialize(deserializer)?.map(|text| super::parse(&text)).transpose()
        }
    }

    /// The same for a list of durations.
    pub(crate) mod list {
        use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

        pub(crate) fn serialize<S: Serializer>(
            values: &[Duration],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let texts: Vec<_> = values.iter().map(|v| humantime::format_duration(*v).to_string()).collect();
            texts.serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<Duration>, D::Error> {
            Vec::<String>::deserialize(deserializer)?.iter().map(|text| super::parse(text)).collect()
        }
    }
}
