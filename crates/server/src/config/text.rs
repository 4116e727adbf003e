//! Settings as they are written: durations, texts that may be absent, and secrets.

use std::fmt;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Shorter ones could be guessed.
    pub const SHORTEST: usize = 32;

    /// Keeps this text from being shown.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What it is made of.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// How long it is.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an empty one is refused")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Durations as people write them: `200ms`, `30s`, `5m`.
pub(super) mod duration {
    use std::time::Duration;

    use backstitch_api::validate::shown_duration;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&shown_duration(*value))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        backstitch::kernel::parse_duration(&text).map_err(|why| {
            D::Error::custom(format!("`{text}` is not a duration ({why}): write it like 200ms, 30s or 5m"))
        })
    }
}

/// How long something is kept: a duration, or `off` for what is kept for ever.
pub(super) mod age {
    use std::time::Duration;

    use backstitch_api::validate::shown_duration;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const OFF: &str = "off";

    #[expect(clippy::ref_option, reason = "serde calls it with a reference")]
    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(age) => to.serialize_str(&shown_duration(*age)),
            None => to.serialize_str(OFF),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(from)?;
        if text == OFF {
            return Ok(None);
        }
        backstitch::kernel::parse_duration(&text).map(Some).map_err(|why| {
            D::Error::custom(format!(
                "`{text}` is not a time to keep something for ({why}): write it like 30days, or off"
            ))
        })
    }
}

/// A text for which nothing is written as an empty one.
pub(super) mod optional {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it with a reference")]
    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_deref().unwrap_or_default())
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<String>, D::Error> {
        let text = String::deserialize(from)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// The same for a secret, which is read but not written.
pub(super) mod secret {
    use serde::{Deserializer, Serializer};

    use super::{Secret, optional};

    #[expect(clippy::ref_option, reason = "serde calls it with a reference")]
    pub(in crate::config) fn serialize<S: Serializer>(_: &Option<Secret>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("")
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(optional::deserialize(from)?.map(Secret))
    }
}
