//! Tokens that open one saga's streams: a browser's `EventSource` can send no headers. A token ends with the key that it was
//! issued to.

use backstitch::SagaId;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::leave::Right;
use super::secret::{Hasher, Purpose};

/// The key that a token is issued to, in the token's first part; none on a server without keys.
const NO_KEY: i64 = 0;

/// The token of a saga for the holder of this key.
pub(crate) fn of(hasher: &Hasher, saga: SagaId, key: Option<i64>) -> String {
    let key = key.unwrap_or(NO_KEY);
    format!("{key}.{}", BASE64_URL_SAFE_NO_PAD.encode(hasher.hash(Purpose::StreamToken, &signed(saga, key))))
}

/// What the token lets in by, if it is one of this saga. Whether its key is still good is for the keyring to say.
pub(crate) fn right(hasher: &Hasher, saga: SagaId, token: &str) -> Option<Right> {
    let (key, hash) = token.split_once('.')?;
    let key = key.parse().ok()?;
    let hash = BASE64_URL_SAFE_NO_PAD.decode(hash).ok()?;
    let fits = hasher.matches(Purpose::StreamToken, &signed(saga, key), &hash);
    fits.then_some(if key == NO_KEY { Right::Open } else { Right::Key(key) })
}

fn signed(saga: SagaId, key: i64) -> [u8; 24] {
    let mut signed = [0; 24];
    signed[..16].copy_from_slice(saga.0.as_bytes());
    signed[16..].copy_from_slice(&key.to_be_bytes());
    signed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_fits_its_own_saga_and_key_only() {
        let hasher = Hasher::new(b"secret").unwrap();
        let [one, other] = [1, 2].map(|number| SagaId(uuid::Uuid::from_u128(number)));
        let token = of(&hasher, one, Some(7));
        assert_eq!(right(&hasher, one, &token), Some(Right::Key(7)));
        assert_eq!(right(&hasher, one, &of(&hasher, one, None)), Some(Right::Open));
        let forged = token.replacen('7', "8", 1);
        for (saga, token) in [(other, token.as_str()), (one, ""), (one, &token[2..]), (one, &forged)] {
            assert_eq!(right(&hasher, saga, token), None, "{token}");
        }
    }
}
