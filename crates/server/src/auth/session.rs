//! A session of the console: what a browser keeps instead of the key that somebody signed in with.
//!
//! It names the key and when it ends, and nothing of it is kept here until somebody [signs out](super::ended) of it: whoever has one
//! is let in for as long as the key is good.

use std::time::Duration;

use backstitch::Timestamp;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::secret::{Hasher, Purpose};

/// How long somebody stays signed in.
pub(crate) const LIFETIME: Duration = Duration::from_secs(12 * 3600);

const SIGNED: usize = 24;
const WHOLE: usize = SIGNED + 32;

/// Somebody who has signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// The number of the key.
    pub(crate) key: i64,
    /// When it ends.
    pub(super) ends_at: Timestamp,
    /// Tells it from all others.
    pub(super) nonce: i64,
}

impl Session {
    /// One that begins now.
    pub(crate) fn begin(key: i64, now: Timestamp, nonce: i64) -> Self {
        Self { key, ends_at: now.plus(LIFETIME), nonce }
    }

    /// What the browser keeps.
    pub(crate) fn seal(&self, hasher: &Hasher) -> String {
        let signed = self.signed();
        let mut whole = signed.to_vec();
        whole.extend_from_slice(&hasher.hash(Purpose::Session, &signed));
        BASE64_URL_SAFE_NO_PAD.encode(whole)
    }

    /// What the browser sends, if it was sealed here and is not over.
    pub(crate) fn open(hasher: &Hasher, text: &str, now: Timestamp) -> Option<Self> {
        let whole: [u8; WHOLE] = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (signed, hash) = whole.split_at(SIGNED);
        if !hasher.matches(Purpose::Session, signed, hash) {
            return None;
        }
        let number = |at: usize| signed[at..at + 8].try_into().ok();
        let session = Self {
            key: i64::from_be_bytes(number(0)?),
            ends_at: Timestamp::from_micros(i64::from_be_bytes(number(8)?)),
            nonce: i64::from_be_bytes(number(16)?),
        };
        Some(session).filter(|session| session.ends_at > now)
    }

    /// What its forms carry, so that no other site can send one.
    pub(crate) fn form_token(&self, hasher: &Hasher) -> String {
        token(hasher, &self.signed())
    }

    /// Whether a form carries it.
    pub(crate) fn has_form_token(&self, hasher: &Hasher, text: &str) -> bool {
        is_token(hasher, &self.signed(), text)
    }

    fn signed(&self) -> [u8; SIGNED] {
        let parts =
            [self.key.to_be_bytes(), self.ends_at.as_micros().to_be_bytes(), self.nonce.to_be_bytes()];
        let mut signed = [0; SIGNED];
        for (place, part) in signed.chunks_exact_mut(8).zip(parts) {
            place.copy_from_slice(&part);
        }
        signed
    }
}

/// The same for whoever needs no key.
pub(crate) fn open_form_token(hasher: &Hasher) -> String {
    token(hasher, b"open")
}

/// Whether a form carries it.
pub(crate) fn is_open_form_token(hasher: &Hasher, text: &str) -> bool {
    is_token(hasher, b"open", text)
}

fn token(hasher: &Hasher, about: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(hasher.hash(Purpose::Form, about))
}

fn is_token(hasher: &Hasher, about: &[u8], text: &str) -> bool {
    BASE64_URL_SAFE_NO_PAD.decode(text).is_ok_and(|hash| hasher.matches(Purpose::Form, about, &hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_here_is_opened_and_nothing_else() {
        let (here, elsewhere) = (Hasher::new(b"secret").unwrap(), Hasher::new(b"another").unwrap());
        let now = Timestamp::from_micros(1);
        let session = Session::begin(7, now, 42);
        let sealed = session.seal(&here);
        assert_eq!(Session::open(&here, &sealed, now), Some(session));
        assert_eq!(Session::open(&elsewhere, &sealed, now), None);
        assert_eq!(Session::open(&here, &sealed, now.plus(LIFETIME)), None, "it is over");
        let mut changed = sealed.clone().into_bytes();
        changed[3] = if changed[3] == b'A' { b'B' } else { b'A' };
        assert_eq!(Session::open(&here, &String::from_utf8(changed).unwrap(), now), None);
        for odd in ["", "bsk_1", &sealed[1..], &format!("{sealed}AAAA")] {
            assert_eq!(Session::open(&here, odd, now), None, "{odd}");
        }
    }

    #[test]
    fn a_form_belongs_to_its_own_session() {
        let hasher = Hasher::new(b"secret").unwrap();
        let [one, other] = [1, 2].map(|nonce| Session::begin(7, Timestamp::from_micros(1), nonce));
        let token = one.form_token(&hasher);
        assert!(one.has_form_token(&hasher, &token));
        assert!(!other.has_form_token(&hasher, &token) && !one.has_form_token(&hasher, ""));
        assert!(!is_open_form_token(&hasher, &token));
        assert!(is_open_form_token(&hasher, &open_form_token(&hasher)));
        assert!(!one.has_form_token(&hasher, &one.seal(&hasher)), "what is kept by the browser is no token");
    }
}
