//! Header values of declared calls at rest. They are often credentials, so the database holds them encrypted; their names stay
//! readable.
//!
//! An encrypted value is an object, `{"encrypted": "…"}`, where a declared one is text. It decrypts only under its name and in a
//! call to the same URL: a call that was redirected in the database discloses nothing. The same value gives the same ciphertext,
//! so that a definition that is declared again is the same definition.

use backstitch::Payload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::secret_store::{DecryptError, SHORTEST, SecretStore, TooShort};

/// The one member of an encrypted value.
const ENCRYPTED: &str = "encrypted";
/// What is shown in place of a value that cannot be decrypted.
const UNREADABLE: &str = "(encrypted with another secret of the server)";

/// How header values are stored.
#[derive(Clone, Debug)]
pub enum HeaderStorage {
    /// As they are declared.
    Plain,
    /// Encrypted with this.
    Encrypted(HeaderCipher),
    /// Not at all: calls with headers are refused, since there is no secret to encrypt them with.
    Refused,
}

/// Encrypts the values of headers.
#[derive(Clone, Debug)]
pub struct HeaderCipher(SecretStore);

/// Header values cannot be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The server's secret is too easy to guess.
    #[error(
        "the server's secret has {0} bytes, and header values are encrypted with {SHORTEST} or more: make one with \
         `openssl rand -base64 32`"
    )]
    TooShort(usize),
    /// There is no secret to encrypt them with.
    #[error(
        "has header values, which are stored encrypted, and the server has no secret to encrypt them with: set `secret` (or \
         BACKSTITCH_SECRET) to the same 32 bytes or more on every node"
    )]
    NoSecret,
    /// The cipher failed, which it never does.
    #[error("the value of header `{0}` cannot be encrypted")]
    Cipher(String),
    /// Another key was used.
    #[error(
        "the value of header `{0}` was encrypted with another secret of the server: start it with the `secret`, or the key \
         file beside the database, that was in use then, or declare the definition again"
    )]
    OtherKey(String),
    /// It is not what was encrypted for this call.
    #[error(
        "the encrypted value of header `{0}` is damaged, or belongs to a call to another URL: declare the definition again"
    )]
    Damaged(String),
}

impl HeaderCipher {
    /// A cipher whose key is derived from the server's secret.
    ///
    /// # Errors
    /// When the secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self, HeaderError> {
        let store = SecretStore::new(secret, "header values of declared calls");
        store.map(Self).map_err(|TooShort(bytes)| HeaderError::TooShort(bytes))
    }

    fn encrypt(&self, url: &str, name: &str, value: &str) -> Result<Value, HeaderError> {
        let encrypted = self.0.encrypt_comparably(&context(url, name), value.as_bytes());
        let encrypted = encrypted.map_err(|_| HeaderError::Cipher(name.to_owned()))?;
        Ok(json!({ ENCRYPTED: STANDARD.encode(encrypted) }))
    }

    fn decrypt(&self, url: &str, name: &str, encrypted: &str) -> Result<String, HeaderError> {
        let damaged = || HeaderError::Damaged(name.to_owned());
        let encrypted = STANDARD.decode(encrypted).map_err(|_| damaged())?;
        let plain = self.0.decrypt(&context(url, name), &encrypted).map_err(|why| match why {
            DecryptError::OtherKey => HeaderError::OtherKey(name.to_owned()),
            DecryptError::Damaged => damaged(),
        })?;
        std::str::from_utf8(&plain).map(str::to_owned).map_err(|_| damaged())
    }
}

impl HeaderStorage {
    /// Encrypted with the server's secret; without one, calls with headers are refused.
    ///
    /// # Errors
    /// When the secret is too short.
    pub fn with_secret(secret: Option<&[u8]>) -> Result<Self, HeaderError> {
        Ok(secret.map(HeaderCipher::new).transpose()?.map_or(Self::Refused, Self::Encrypted))
    }

    /// The call as the database may hold it. Values that are encrypted already stay as they are.
    ///
    /// # Errors
    /// When it has header values that cannot be encrypted.
    pub fn protect(&self, call: &Payload) -> Result<Payload, HeaderError> {
        changed(call, |url, name, value| match (value, self) {
            (Value::String(value), Self::Encrypted(cipher)) => cipher.encrypt(url, name, value).map(Some),
            (Value::String(_), Self::Refused) => Err(HeaderError::NoSecret),
            _ => Ok(None),
        })
    }

    /// The call as it was declared.
    ///
    /// # Errors
    /// When a value cannot be decrypted.
    pub fn reveal(&self, call: &Payload) -> Result<Payload, HeaderError> {
        changed(call, |url, name, value| {
            let Some(encrypted) = encrypted(value) else { return Ok(None) };
            match self {
                Self::Encrypted(cipher) => {
                    cipher.decrypt(url, name, encrypted).map(|value| Some(Value::String(value)))
                }
                Self::Plain | Self::Refused => Err(HeaderError::OtherKey(name.to_owned())),
            }
        })
    }

    /// The same for people: what cannot be decrypted says so.
    #[must_use]
    pub fn shown(&self, call: &Payload) -> Payload {
        let shown = changed(call, |url, name, value| {
            let Some(encrypted) = encrypted(value) else { return Ok(None) };
            let value = match self {
                Self::Encrypted(cipher) => cipher.decrypt(url, name, encrypted).ok(),
                Self::Plain | Self::Refused => None,
            };
            Ok(Some(Value::String(value.unwrap_or_else(|| UNREADABLE.to_owned()))))
        });
        // Nothing above fails.
        shown.unwrap_or_else(|_| call.clone())
    }
}

/// Whether a call has header values in plain text.
#[must_use]
pub fn has_plain_headers(call: &Payload) -> bool {
    let found = changed(call, |_, name, value| match value {
        Value::String(_) => Err(HeaderError::Cipher(name.to_owned())),
        _ => Ok(None),
    });
    found.is_err()
}

/// The call with these values changed; the very same text where none is. What is no call over HTTP is left alone.
fn changed(
    call: &Payload,
    change: impl Fn(&str, &str, &Value) -> Result<Option<Value>, HeaderError>,
) -> Result<Payload, HeaderError> {
    // Most calls have none, and are not read for it.
    if !call.as_str().contains("\"headers\"") {
        return Ok(call.clone());
    }
    let Ok(mut read) = call.decode::<Value>() else { return Ok(call.clone()) };
    let Some(http) = read.get_mut("http").and_then(Value::as_object_mut) else { return Ok(call.clone()) };
    let url = http.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(headers) = http.get_mut("headers").and_then(Value::as_object_mut) else {
        return Ok(call.clone());
    };
    let mut is_changed = false;
    for (name, value) in headers.iter_mut() {
        if let Some(changed) = change(&url, name, value)? {
            *value = changed;
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(call.clone());
    }
    Ok(Payload::encode(&read).unwrap_or_else(|_| call.clone()))
}

fn encrypted(value: &Value) -> Option<&str> {
    let members: &Map<String, Value> = value.as_object()?;
    members.get(ENCRYPTED)?.as_str()
}

fn context(url: &str, name: &str) -> Vec<u8> {
    // No URL contains NUL. Names of headers are compared without case.
    [url.as_bytes(), b"\0", name.to_ascii_lowercase().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(byte: u8) -> HeaderStorage {
        HeaderStorage::with_secret(Some(&[byte; SHORTEST])).unwrap()
    }

    fn call(url: &str, token: &str) -> Payload {
        let headers = json!({"Authorization": token, "X-Tenant": "acme"});
        Payload::encode(&json!({"http": {"method": "PUT", "url": url, "headers": headers}})).unwrap()
    }

    #[test]
    fn header_values_are_encrypted_and_come_back() {
        let plain = call("http://pay/charge", "Bearer hush");
        let kept = storage(7).protect(&plain).unwrap();
        assert!(!kept.as_str().contains("hush") && !kept.as_str().contains("acme"), "{kept:?}");
        assert!(kept.as_str().contains("Authorization") && kept.as_str().contains("http://pay/charge"));
        assert_eq!(storage(7).reveal(&kept).unwrap(), plain);
        assert_eq!(storage(7).shown(&kept), plain);
        assert_eq!(storage(7).protect(&kept).unwrap(), kept, "only once");
        assert!(has_plain_headers(&plain) && !has_plain_headers(&kept));
    }

    #[test]
    fn same_header_value_gives_the_same_ciphertext() {
        let kept = |token| storage(7).protect(&call("http://pay/charge", token)).unwrap();
        assert_eq!(kept("Bearer 1"), kept("Bearer 1"));
        assert_ne!(kept("Bearer 1"), kept("Bearer 2"));
    }

    #[test]
    fn header_value_decrypts_for_its_own_url_and_name_only() {
        let kept = storage(7).protect(&call("http://pay/charge", "Bearer hush")).unwrap();
        for (from, to) in [("http://pay/charge", "http://evil/charge"), ("Authorization", "X-Echo")] {
            let moved = Payload::parse(kept.as_str().replace(from, to)).unwrap();
            assert!(matches!(storage(7).reveal(&moved), Err(HeaderError::Damaged(_))), "{to}");
        }
    }

    #[test]
    fn wrong_secret_is_reported_with_what_to_do() {
        let kept = storage(7).protect(&call("http://pay/charge", "Bearer hush")).unwrap();
        for other in [storage(8), HeaderStorage::Refused, HeaderStorage::Plain] {
            let why = other.reveal(&kept).unwrap_err().to_string();
            for word in ["`Authorization`", "`secret`", "key file", "declare the definition again"] {
                assert!(why.contains(word), "{why}");
            }
            assert!(other.shown(&kept).as_str().contains("another secret"));
        }
    }

    #[test]
    fn header_values_without_a_secret_are_refused() {
        let why = HeaderStorage::with_secret(None).unwrap().protect(&call("http://pay", "Bearer 1"));
        assert!(why.unwrap_err().to_string().contains("set `secret`"));
        let bare = Payload::parse(r#"{"http": {"url": "http://pay"}}"#).unwrap();
        assert_eq!(HeaderStorage::Refused.protect(&bare).unwrap(), bare);
        assert!(HeaderStorage::with_secret(Some(b"hush")).unwrap_err().to_string().contains("openssl rand"));
    }

    #[test]
    fn plain_header_values_of_old_rows_can_be_used() {
        let plain = call("http://pay/charge", "Bearer hush");
        for storage in [storage(7), HeaderStorage::Plain, HeaderStorage::Refused] {
            assert_eq!(storage.reveal(&plain).unwrap(), plain);
        }
    }

    #[test]
    fn other_calls_are_left_alone() {
        for text in [
            "null",
            r#"{"site":"create_hook"}"#,
            r#"{"http":{"url":"http://a","headers":{}}}"#,
            r#"{"headers":1}"#,
        ] {
            let call = Payload::parse(text).unwrap();
            assert_eq!(storage(7).protect(&call).unwrap().as_str(), text);
        }
    }
}
