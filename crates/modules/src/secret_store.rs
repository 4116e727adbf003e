//! Secrets at rest: encrypted with keys that are derived from the server's secret, so that a copy of the database alone
//! discloses none of them.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::randomness::{NoRandomness, Randomness};

/// The shortest secret that keys are derived from, in bytes.
pub const SHORTEST: usize = 32;
/// The first byte of a ciphertext: the format of the rest.
const FORM: u8 = 1;
/// Bytes that identify the key.
const MARK: usize = 4;
/// Long enough that random nonces never repeat.
const NONCE: usize = 24;

/// Encrypts secrets of one purpose, and decrypts them.
///
/// A ciphertext is one byte for its format, four that identify the key, the nonce, and the secret encrypted by
/// XChaCha20-Poly1305. It is bound to a context, such as the row that it belongs to: it decrypts nowhere else.
#[derive(Clone)]
pub struct SecretStore {
    cipher: XChaCha20Poly1305,
    nonces: Zeroizing<[u8; 32]>,
    mark: [u8; MARK],
}

/// The server's secret has so many bytes, which is too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort(pub usize);

/// A secret cannot be encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptError {
    /// There is no nonce.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The cipher failed, which it never does.
    #[error("a secret cannot be encrypted")]
    Cipher,
}

/// A secret cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecryptError {
    /// It was encrypted with another secret of the server.
    OtherKey,
    /// It was changed, or belongs to another context.
    Damaged,
}

impl SecretStore {
    /// A store whose keys are derived from the server's secret, for this purpose alone.
    ///
    /// # Errors
    /// When the secret is too short.
    pub fn new(secret: &[u8], purpose: &str) -> Result<Self, TooShort> {
        if secret.len() < SHORTEST {
            return Err(TooShort(secret.len()));
        }
        let derived = |part: &str| derived(secret, &[purpose.as_bytes(), b"\0", part.as_bytes()]);
        let (key, mark) = (derived("key")?, derived("mark")?);
        let mark = std::array::from_fn(|at| mark[at]);
        Ok(Self { cipher: XChaCha20Poly1305::new((&*key).into()), nonces: derived("nonce")?, mark })
    }

    /// Encrypts a secret for this context, each time anew.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn encrypt(
        &self,
        context: &[u8],
        plain: &[u8],
        randomness: &dyn Randomness,
    ) -> Result<Vec<u8>, EncryptError> {
        let mut nonce = [0; NONCE];
        randomness.fill(&mut nonce)?;
        self.encrypt_with(nonce, context, plain)
    }

    /// Encrypts a secret for this context so that the same secret gives the same ciphertext: whether it has changed can be
    /// seen without decrypting it. Its nonce is a keyed hash of context and secret.
    ///
    /// # Errors
    /// Never in practice.
    pub fn encrypt_comparably(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, EncryptError> {
        let length = (context.len() as u64).to_be_bytes();
        let hash = derived(&*self.nonces, &[&length, context, plain]).map_err(|_| EncryptError::Cipher)?;
        self.encrypt_with(std::array::from_fn(|at| hash[at]), context, plain)
    }

    fn encrypt_with(
        &self,
        nonce: [u8; NONCE],
        context: &[u8],
        plain: &[u8],
    ) -> Result<Vec<u8>, EncryptError> {
        let plain = Payload { msg: plain, aad: &self.bound_to(context) };
        let coded = self.cipher.encrypt(&XNonce::from(nonce), plain).map_err(|_| EncryptError::Cipher)?;
        Ok([&[FORM][..], &self.mark, &nonce, &coded].concat())
    }

    /// The secret that was encrypted for this context.
    ///
    /// # Errors
    /// When another key was used, or the ciphertext has been changed.
    pub fn decrypt(&self, context: &[u8], encrypted: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
        let (mark, nonce, coded) = parts(encrypted).ok_or(DecryptError::Damaged)?;
        if mark != self.mark {
            return Err(DecryptError::OtherKey);
        }
        let coded = Payload { msg: coded, aad: &self.bound_to(context) };
        let plain = self.cipher.decrypt(&XNonce::from(nonce), coded);
        plain.map(Zeroizing::new).map_err(|_| DecryptError::Damaged)
    }

    /// What is authenticated beside the secret.
    fn bound_to(&self, context: &[u8]) -> Vec<u8> {
        [&[FORM][..], &self.mark, context].concat()
    }
}

impl fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretStore(secret)")
    }
}

fn parts(encrypted: &[u8]) -> Option<([u8; MARK], [u8; NONCE], &[u8])> {
    let rest = encrypted.strip_prefix(&[FORM])?;
    let (mark, rest) = rest.split_first_chunk()?;
    let (nonce, coded) = rest.split_first_chunk()?;
    Some((*mark, *nonce, coded))
}

/// A keyed hash: a key for one purpose, which tells nothing about the secret or any other key.
fn derived(secret: &[u8], parts: &[&[u8]]) -> Result<Zeroizing<[u8; 32]>, TooShort> {
    let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).map_err(|_| TooShort(secret.len()))?;
    let mac = parts.iter().fold(mac, Mac::chain_update);
    Ok(Zeroizing::new(mac.finalize().into_bytes().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomness::SystemRandomness;

    fn store(byte: u8, purpose: &str) -> SecretStore {
        SecretStore::new(&[byte; SHORTEST], purpose).unwrap()
    }

    #[test]
    fn each_purpose_and_each_secret_has_its_own_key() {
        let encrypted = store(7, "a").encrypt(b"row 1", b"hush", &SystemRandomness).unwrap();
        assert_eq!(&**store(7, "a").decrypt(b"row 1", &encrypted).unwrap(), b"hush");
        assert_eq!(store(7, "b").decrypt(b"row 1", &encrypted), Err(DecryptError::OtherKey));
        assert_eq!(store(8, "a").decrypt(b"row 1", &encrypted), Err(DecryptError::OtherKey));
        assert_eq!(store(7, "a").decrypt(b"row 2", &encrypted), Err(DecryptError::Damaged));
    }

    /// Databases hold such ciphertexts.
    #[test]
    fn stored_format_does_not_change() {
        let hash = |purpose: &[u8]| -> [u8; 32] {
            let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&[7; SHORTEST]).unwrap();
            mac.chain_update(purpose).finalize().into_bytes().into()
        };
        let (key, mark, nonce) = (hash(b"a\0key"), &hash(b"a\0mark")[..4], [9; 24]);
        let bound = [&[1][..], mark, b"row 1"].concat();
        let cipher = XChaCha20Poly1305::new(&key.into());
        let coded = cipher.encrypt(&XNonce::from(nonce), Payload { msg: b"hush", aad: &bound }).unwrap();
        let encrypted = [&[1][..], mark, &nonce, &coded].concat();
        assert_eq!(&**store(7, "a").decrypt(b"row 1", &encrypted).unwrap(), b"hush");
    }

    #[test]
    fn comparable_ciphertext_tells_only_whether_a_secret_changed() {
        let store = store(7, "a");
        let of = |context: &[u8], plain: &[u8]| store.encrypt_comparably(context, plain).unwrap();
        assert_eq!(of(b"row 1", b"hush"), of(b"row 1", b"hush"));
        assert_eq!(&**store.decrypt(b"row 1", &of(b"row 1", b"hush")).unwrap(), b"hush");
        for (context, plain) in
            [(&b"row 1"[..], &b"hash"[..]), (&b"row 2"[..], &b"hush"[..]), (&b"row 1h"[..], &b"ush"[..])]
        {
            let other = of(context, plain);
            assert_ne!(other[5..29], of(b"row 1", b"hush")[5..29], "another nonce");
        }
    }

    #[test]
    fn short_secrets_are_refused() {
        assert_eq!(SecretStore::new(&[7; SHORTEST - 1], "a").unwrap_err(), TooShort(SHORTEST - 1));
        assert_eq!(format!("{:?}", store(7, "a")), "SecretStore(secret)");
    }
}
