//! An API key as its holder has it.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// What every key begins with, so that it is known for one wherever it turns up.
const PREFIX: &str = "bsk_";
/// Bytes that make up a key: nobody guesses 256 bits.
pub(crate) const BYTES: usize = 32;

/// A new key from these random bytes.
pub(crate) fn from_random(bytes: [u8; BYTES]) -> String {
    format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The end of a key, by which people recognise it.
pub(crate) fn last_four(key: &str) -> &str {
    key.get(key.len().saturating_sub(4)..).unwrap_or_default()
}

/// Whether this could be a key at all; what cannot be one is not looked up.
pub(crate) fn is_well_formed(text: &str) -> bool {
    let decoded = text.strip_prefix(PREFIX).map(|rest| BASE64_URL_SAFE_NO_PAD.decode(rest));
    matches!(decoded, Some(Ok(bytes)) if bytes.len() == BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_prefix_and_its_end() {
        let key = from_random([7; BYTES]);
        assert!(key.starts_with("bsk_") && key.ends_with(last_four(&key)));
        assert!(is_well_formed(&key));
        assert!(!is_well_formed("bsk_short") && !is_well_formed(&key[1..]) && !is_well_formed(""));
    }
}
