//! Leave to look at one saga, for whoever started it: a browser's `EventSource` can send no headers.

use backstitch::SagaId;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::secret::{Hasher, Purpose};

/// The token of a saga.
pub(crate) fn of(hasher: &Hasher, saga: SagaId) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(hasher.hash(Purpose::StreamToken, saga.0.as_bytes()))
}

/// Whether this is the saga's token.
pub(crate) fn fits(hasher: &Hasher, saga: SagaId, token: &str) -> bool {
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(token);
    decoded.is_ok_and(|hash| hasher.matches(Purpose::StreamToken, saga.0.as_bytes(), &hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_its_own_saga_only() {
        let hasher = Hasher::new(b"secret").unwrap();
        let [one, other] = [1, 2].map(|number| SagaId(uuid::Uuid::from_u128(number)));
        let token = of(&hasher, one);
        assert!(fits(&hasher, one, &token));
        assert!(!fits(&hasher, other, &token) && !fits(&hasher, one, "") && !fits(&hasher, one, &token[1..]));
    }
}
