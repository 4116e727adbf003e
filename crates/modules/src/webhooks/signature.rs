//! Signatures by which a receiver knows that a webhook is ours and has not been changed: the scheme of
//! [Standard Webhooks](https://www.standardwebhooks.com).

use std::fmt;

use backstitch::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::randomness::{NoRandomness, Randomness};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The headers that a signed request has.
pub(super) const HEADERS: [HeaderName; 3] = [ID, TIMESTAMP, SIGNATURE];

/// What a written secret begins with.
const PREFIX: &str = "whsec_";
/// How long a secret may be, in bytes; the longest fills a block of the hash.
const SHORTEST: usize = 24;
const LONGEST: usize = 64;
/// How long one is that is made here.
const MADE: usize = 32;
/// The longest id, in bytes.
const LONGEST_ID: usize = 255;

/// What a receiver checks signatures with. It is never shown by accident, and gone from memory once it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// A secret that is none. What was written is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// It begins with something else.
    #[error("a signing secret begins with `{PREFIX}`: send it whole, as it was shown")]
    Prefix,
    /// The rest is no base64.
    #[error("what follows `{PREFIX}` in a signing secret is base64: send it whole, as it was shown")]
    Base64,
    /// It is too short or too long.
    #[error("a signing secret has {SHORTEST} to {LONGEST} bytes, and this one has {0}")]
    Length(usize),
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn make(randomness: &dyn Randomness) -> Result<Self, NoRandomness> {
        let mut bytes = Zeroizing::new(vec![0; MADE]);
        randomness.fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads one as it is written: `whsec_` and base64.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(written: &str) -> Result<Self, BadSecret> {
        let coded = written.strip_prefix(PREFIX).ok_or(BadSecret::Prefix)?;
        let bytes = Zeroizing::new(STANDARD.decode(coded).map_err(|_| BadSecret::Base64)?);
        Self::from_bytes(&bytes)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, BadSecret> {
        if !(SHORTEST..=LONGEST).contains(&bytes.len()) {
            return Err(BadSecret::Length(bytes.len()));
        }
        Ok(Self(Zeroizing::new(bytes.to_vec())))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How it is written, for the one time that it is shown.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        let coded = Zeroizing::new(STANDARD.encode(&*self.0));
        Zeroizing::new([PREFIX, &coded].concat())
    }

    fn mac(&self) -> Hmac<Sha256> {
        // No secret is longer than a block of the hash, and HMAC fills up shorter keys with zeros itself.
        let mut block = Zeroizing::new([0; LONGEST]);
        block[..self.0.len()].copy_from_slice(&self.0);
        Hmac::new((&*block).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// By what a receiver tells that a webhook came before: the same on every attempt, and after a requeue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookId(String);

/// An id that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a webhook's id has 1 to {LONGEST_ID} characters, and none of them is a blank, a full stop, a control character or \
     beyond ASCII"
)]
pub struct BadId;

impl WebhookId {
    /// This one. A full stop would blur where the id ends in what is signed.
    ///
    /// # Errors
    /// When it cannot stand in a header or be signed.
    pub fn new(id: impl Into<String>) -> Result<Self, BadId> {
        let id = id.into();
        let fits = (1..=LONGEST_ID).contains(&id.len());
        if fits && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.') {
            Ok(Self(id))
        } else {
            Err(BadId)
        }
    }

    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The header `webhook-signature`: one signature for each secret that is good now.
#[must_use]
pub fn sign(secrets: &[Secret], id: &WebhookId, timestamp: i64, body: &[u8]) -> String {
    let mut signatures = String::with_capacity(48 * secrets.len());
    for secret in secrets {
        let mut mac = secret.mac();
        mac.update(id.0.as_bytes());
        mac.update(format!(".{timestamp}.").as_bytes());
        mac.update(body);
        if !signatures.is_empty() {
            signatures.push(' ');
        }
        signatures.push_str("v1,");
        STANDARD.encode_string(mac.finalize().into_bytes(), &mut signatures);
    }
    signatures
}

/// Adds the three headers; what somebody may have set under these names is gone then.
pub(super) fn insert(
    headers: &mut HeaderMap,
    secrets: &[Secret],
    id: &WebhookId,
    now: Timestamp,
    body: &[u8],
) -> Result<(), http::header::InvalidHeaderValue> {
    let timestamp = now.as_micros().div_euclid(1_000_000);
    headers.insert(ID, HeaderValue::from_str(&id.0)?);
    headers.insert(TIMESTAMP, HeaderValue::from(timestamp));
    headers.insert(SIGNATURE, HeaderValue::try_from(sign(secrets, id, timestamp, body))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use standardwebhooks::Webhook;

    use super::*;
    use crate::randomness::SystemRandomness;

    /// The example of the scheme's own test suites.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const AT: i64 = 1_614_265_330;
    const SIGNED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn id() -> WebhookId {
        WebhookId::new("msg_p5jXN8AQM9LWM0D4loKWxJek").unwrap()
    }

    #[test]
    fn a_signature_is_the_one_of_the_schemes_own_example() {
        assert_eq!(sign(&[Secret::parse(SECRET).unwrap()], &id(), AT, BODY), SIGNED);
    }

    #[test]
    fn another_implementation_makes_the_same_signatures_with_secrets_of_every_length() {
        for length in SHORTEST..=LONGEST {
            let secret = Secret::from_bytes(&vec![u8::try_from(length).unwrap(); length]).unwrap();
            let other = Webhook::new(&secret.reveal()).unwrap().sign(id().as_str(), AT, BODY).unwrap();
            assert_eq!(sign(&[secret], &id(), AT, BODY), other, "{length} bytes");
        }
    }

    #[test]
    fn whatever_is_tampered_with_breaks_the_signature() {
        let secret = Secret::parse(SECRET).unwrap();
        let sign = |id: &str, at, body: &[u8]| {
            super::sign(std::slice::from_ref(&secret), &WebhookId::new(id).unwrap(), at, body)
        };
        for tampered in [
            sign("msg_p5jXN8AQM9LWM0D4loKWxJeK", AT, BODY),
            sign(id().as_str(), AT + 1, BODY),
            sign(id().as_str(), AT, br#"{"test": 2432232315}"#),
            sign(id().as_str(), AT, &BODY[1..]),
            super::sign(&[Secret::make(&SystemRandomness).unwrap()], &id(), AT, BODY),
        ] {
            assert_ne!(tampered, SIGNED);
        }
    }

    #[test]
    fn while_a_secret_is_rotated_both_are_good() {
        let [old, new] = [(); 2].map(|()| Secret::make(&SystemRandomness).unwrap());
        let both = sign(&[new.clone(), old.clone()], &id(), AT, BODY);
        let each = [&new, &old].map(|secret| sign(std::slice::from_ref(secret), &id(), AT, BODY));
        assert_eq!(both, each.join(" "));
    }

    #[test]
    fn a_secret_is_read_as_it_was_shown_and_shown_on_purpose_only() {
        let secret = Secret::make(&SystemRandomness).unwrap();
        let written = secret.reveal();
        assert!(written.starts_with("whsec_") && written.len() == 50, "32 bytes");
        assert_eq!(Secret::parse(&written).unwrap(), secret);
        assert_ne!(Secret::make(&SystemRandomness).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "(secret)");
    }

    #[test]
    fn a_secret_that_is_none_is_refused_and_not_repeated() {
        for (written, complaint) in [
            ("", "begins with"),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "begins with"),
            ("WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "begins with"),
            ("whsec_", "24 to 64"),
            ("whsec_hush!", "base64"),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "base64"),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw ", "base64"),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLQ==", "24 to 64 bytes, and this one has 22"),
        ] {
            let why = Secret::parse(written).unwrap_err().to_string();
            assert!(
                why.contains(complaint) && !why.contains("hush") && !why.contains("MfKQ"),
                "{written}: {why}"
            );
        }
        assert_eq!(Secret::parse(&format!("whsec_{}", STANDARD.encode([0; 65]))), Err(BadSecret::Length(65)));
    }

    #[test]
    fn an_id_stands_in_a_header_and_ends_where_it_ends() {
        for bad in ["", "a b", "a.b", "a\r\nb", "ä", "a\0", &"a".repeat(256)] {
            assert_eq!(WebhookId::new(bad), Err(BadId), "{bad:?}");
        }
        assert!(WebhookId::new("a".repeat(255)).is_ok());
    }

    #[test]
    fn the_headers_are_those_of_the_scheme_whatever_stood_there() {
        let mut headers = HeaderMap::new();
        headers.insert(ID, HeaderValue::from_static("forged"));
        let now = Timestamp::from_micros(AT * 1_000_000 + 999_999);
        insert(&mut headers, &[Secret::parse(SECRET).unwrap()], &id(), now, BODY).unwrap();
        assert_eq!(headers[ID], id().as_str());
        assert_eq!(headers[TIMESTAMP], AT.to_string());
        assert_eq!(headers[SIGNATURE], SIGNED);
        assert_eq!(headers.len(), 3);
    }
}
