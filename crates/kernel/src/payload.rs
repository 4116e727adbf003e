//! JSON text that is stored and passed on without being parsed.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One valid JSON document. Clones share the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload {
    text: Arc<str>,
    /// The document stands for a response that was not JSON. The log stores the mark; other serialisations drop it.
    unparsed: bool,
}

impl Payload {
    /// JSON `null`: the input of a saga without one, and the result of a step without one.
    #[must_use]
    pub fn null() -> Self {
        Self::parsed(Arc::from("null"))
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// When the value has no JSON form, such as a map with keys that are not strings.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self::parsed(text.into()))
    }

    /// Takes text that must already be JSON.
    ///
    /// # Errors
    /// When the text is not exactly one JSON document.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        let document = serde_json::from_str::<&RawValue>(&text)?.get();
        // Whitespace around the document would be lost when it is stored inside another document.
        Ok(Self::parsed(if document.len() == text.len() { text } else { document.into() }))
    }

    /// A response that was not JSON: text becomes a JSON string, anything else `null`.
    #[must_use]
    pub fn from_unparsed(body: &[u8]) -> Self {
        // NUL is valid UTF-8, but bodies that contain it are binary, and databases refuse it in text.
        let text = std::str::from_utf8(body).ok().filter(|text| !text.contains('\0'));
        text.and_then(|text| Self::encode(text).ok()).unwrap_or_default().marked_unparsed(true)
    }

    /// The same document marked as unparsed, as read from a log.
    #[must_use]
    pub(crate) fn marked_unparsed(self, unparsed: bool) -> Self {
        Self { unparsed, ..self }
    }

    /// Whether the document stands for a response that was not JSON.
    #[must_use]
    pub fn is_unparsed(&self) -> bool {
        self.unparsed
    }

    fn parsed(text: Arc<str>) -> Self {
        Self { text, unparsed: false }
    }

    /// Decodes the document.
    ///
    /// # Errors
    /// When the document does not match `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.text)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.text == "null"
    }

    /// Size of the text in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether the text is empty, which no valid document is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl From<serde_json::Value> for Payload {
    /// Unlike the other encoders, this one cannot fail.
    fn from(document: serde_json::Value) -> Self {
        Self::parsed(document.to_string().into())
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::null()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::parsed(raw.get().into()))
    }
}
