//! What the settings of several products have in common.

use std::fmt;
use std::time::Duration;

use backstitch::kernel::parse_duration;
use serde::{Deserialize, Deserializer};

/// An answer is waited for this long, unless told.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);
/// Less than the engine waits for a send as a whole, so that it is known who was late.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Keeps this.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// What is wrong with the time that an answer is waited for.
pub(crate) fn late(place: &str, timeout: Duration) -> Option<String> {
    let fits = (SHORTEST_TIMEOUT..=LONGEST_TIMEOUT).contains(&timeout);
    (!fits).then(|| format!("{place} must be {SHORTEST_TIMEOUT:?} to {LONGEST_TIMEOUT:?}"))
}

pub(crate) fn default_timeout() -> Duration {
    DEFAULT_TIMEOUT
}

/// A duration as people write it.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?)
}

/// Several of them.
pub(crate) fn durations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| parse(text)).collect()
}

fn parse<E: serde::de::Error>(text: &str) -> Result<Duration, E> {
    parse_duration(text)
        .map_err(|why| E::custom(format!("`{text}` is not a duration ({why}): write it like 500ms or 10s")))
}
