//! Idempotency: tells a repeated request from another one under the same key.

use std::fmt;

use serde::{Deserialize, Serialize};

/// SHA-256 of a request's canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// How a request relates to the ledger's entry for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key is new.
    Fresh,
    /// A repeated request: return the first response.
    Replay,
    /// The key belongs to a different request: refuse.
    Conflict,
}

/// Compares a request's digest with the digest first seen under its key.
#[must_use]
pub fn judge(first: Option<&Digest>, now: &Digest) -> Verdict {
    match first {
        None => Verdict::Fresh,
        Some(first) if first == now => Verdict::Replay,
        Some(_) => Verdict::Conflict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shown_in_hexadecimal() {
        let mut digest = Digest([0; 32]);
        (digest.0[0], digest.0[31]) = (0x0a, 0xff);
        assert_eq!(digest.to_string(), format!("0a{}ff", "00".repeat(30)));
    }

    #[test]
    fn key_replays_its_request_and_refuses_another() {
        let (a, b) = (Digest([1; 32]), Digest([2; 32]));
        assert_eq!(judge(None, &a), Verdict::Fresh);
        assert_eq!(judge(Some(&a), &a), Verdict::Replay);
        assert_eq!(judge(Some(&a), &b), Verdict::Conflict);
    }
}
