//! Secrets of subscriptions at rest: whoever has the database alone has none of them.

use std::fmt;

use super::signature::Secret;
use crate::randomness::{NoRandomness, Randomness};
use crate::secret_store::{DecryptError, EncryptError, SHORTEST, SecretStore, TooShort};

/// Encrypts signing secrets and the values of headers. A ciphertext decrypts for its own subscription only, and a header's
/// value only under its own name.
#[derive(Clone)]
pub struct Vault(SecretStore);

/// A secret cannot be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The secret of the server is too easy to guess.
    #[error(
        "the server's secret has {0} bytes, and signing secrets are kept with {SHORTEST} or more: make one with \
         `openssl rand -base64 32`"
    )]
    TooShort(usize),
    /// There is no nonce to be had.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// Encryption failed, which it never does.
    #[error("a secret cannot be encrypted")]
    Unsealable,
    /// Another key was used.
    #[error(
        "the signing secret of subscription {subscription} was kept with another secret of the server: start it with \
         the `secret`, or the key file beside the database, that was in use then, or rotate the subscription's secret"
    )]
    OtherKey {
        /// Whose it is.
        subscription: i64,
    },
    /// It is not what was sealed for this subscription.
    #[error(
        "the signing secret of subscription {subscription} is damaged, or was kept for another one: restore the row, \
         or rotate the subscription's secret"
    )]
    Damaged {
        /// Whose it is.
        subscription: i64,
    },
    /// Another key was used for a header's value.
    #[error(
        "the header `{name}` of subscription {subscription} was kept with another secret of the server: start it with \
         the `secret`, or the key file beside the database, that was in use then, or give the subscription its headers again"
    )]
    OtherKeyOfHeader {
        /// Whose it is.
        subscription: i64,
        /// Which.
        name: String,
    },
    /// A header's value is not what was sealed for this subscription under this name.
    #[error(
        "the header `{name}` of subscription {subscription} is damaged, or was kept for another one: restore the row, or \
         give the subscription its headers again"
    )]
    DamagedHeader {
        /// Whose it is.
        subscription: i64,
        /// Which.
        name: String,
    },
}

impl From<EncryptError> for Error {
    fn from(why: EncryptError) -> Self {
        match why {
            EncryptError::NoRandomness(why) => Self::NoRandomness(why),
            EncryptError::Cipher => Self::Unsealable,
        }
    }
}

impl Vault {
    /// A vault whose key is made from the server's secret, for this purpose alone.
    ///
    /// # Errors
    /// When the secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self, Error> {
        let store = SecretStore::new(secret, "webhook signing secrets");
        store.map(Self).map_err(|TooShort(bytes)| Error::TooShort(bytes))
    }

    /// A secret as the database may hold it.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn seal(
        &self,
        subscription: i64,
        secret: &Secret,
        randomness: &dyn Randomness,
    ) -> Result<Vec<u8>, Error> {
        Ok(self.0.encrypt(&context(subscription), secret.as_bytes(), randomness)?)
    }

    /// The secret that was sealed for this subscription.
    ///
    /// # Errors
    /// When another key was used, or what is kept has been changed.
    pub fn open(&self, subscription: i64, sealed: &[u8]) -> Result<Secret, Error> {
        let bytes = self.0.decrypt(&context(subscription), sealed).map_err(|why| match why {
            DecryptError::OtherKey => Error::OtherKey { subscription },
            DecryptError::Damaged => Error::Damaged { subscription },
        })?;
        Secret::from_bytes(&bytes).map_err(|_| Error::Damaged { subscription })
    }

    /// The value of a subscription's header as the database may hold it.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(super) fn seal_header(
        &self,
        subscription: i64,
        name: &str,
        value: &str,
        randomness: &dyn Randomness,
    ) -> Result<Vec<u8>, Error> {
        Ok(self.0.encrypt(&context_of_header(subscription, name), value.as_bytes(), randomness)?)
    }

    /// The value that was sealed for this header of this subscription.
    ///
    /// # Errors
    /// When another key was used, or what is kept has been changed.
    pub(super) fn open_header(&self, subscription: i64, name: &str, sealed: &[u8]) -> Result<String, Error> {
        let told = |why| match why {
            DecryptError::OtherKey => Error::OtherKeyOfHeader { subscription, name: name.to_owned() },
            DecryptError::Damaged => Error::DamagedHeader { subscription, name: name.to_owned() },
        };
        let bytes = self.0.decrypt(&context_of_header(subscription, name), sealed).map_err(told)?;
        std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| told(DecryptError::Damaged))
    }
}

/// What a signing secret is bound to.
fn context(subscription: i64) -> Vec<u8> {
    [&b"subscription\0"[..], &subscription.to_be_bytes()].concat()
}

fn context_of_header(subscription: i64, name: &str) -> Vec<u8> {
    [&b"subscription's header\0"[..], &subscription.to_be_bytes(), name.as_bytes()].concat()
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomness::SystemRandomness;

    const OURS: &[u8] = b"a secret of thirty-two bytes or more";

    fn sealed() -> (Vault, Secret, Vec<u8>) {
        let vault = Vault::new(OURS).unwrap();
        let secret = Secret::make(&SystemRandomness).unwrap();
        let sealed = vault.seal(7, &secret, &SystemRandomness).unwrap();
        (vault, secret, sealed)
    }

    #[test]
    fn what_is_sealed_opens_again_also_after_a_restart() {
        let (vault, secret, sealed) = sealed();
        assert_eq!(vault.open(7, &sealed).unwrap(), secret);
        assert_eq!(Vault::new(OURS).unwrap().open(7, &sealed).unwrap(), secret);
    }

    #[test]
    fn the_database_holds_no_secret_and_never_the_same_twice() {
        let (vault, secret, sealed) = sealed();
        let bytes = secret.as_bytes();
        assert!(!sealed.windows(8).any(|window| bytes.windows(8).any(|part| part == window)));
        assert_ne!(vault.seal(7, &secret, &SystemRandomness).unwrap(), sealed);
    }

    #[test]
    fn a_secret_cannot_be_moved_to_another_subscription() {
        let (vault, _, sealed) = sealed();
        assert_eq!(vault.open(8, &sealed), Err(Error::Damaged { subscription: 8 }));
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let (vault, _, sealed) = sealed();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(vault.open(7, &changed).is_err(), "byte {at}");
        }
        for length in 0..sealed.len() {
            assert_eq!(
                vault.open(7, &sealed[..length]),
                Err(Error::Damaged { subscription: 7 }),
                "{length} bytes"
            );
        }
        assert!(vault.open(7, &[&sealed[..], b"x"].concat()).is_err());
    }

    #[test]
    fn a_wrong_key_is_told_with_what_to_do() {
        let (_, _, sealed) = sealed();
        let other = Vault::new(b"another secret of thirty-two bytes or more").unwrap();
        let why = other.open(7, &sealed).unwrap_err();
        assert_eq!(why, Error::OtherKey { subscription: 7 });
        let told = why.to_string();
        for word in ["subscription 7", "`secret`", "key file", "rotate"] {
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn a_secret_that_could_be_guessed_makes_no_vault() {
        let why = Vault::new(b"hush").unwrap_err();
        assert_eq!(why, Error::TooShort(4));
        assert!(why.to_string().contains("openssl rand"), "{why}");
        assert_eq!(format!("{:?}", Vault::new(OURS).unwrap()), "Vault(secret)");
    }

    #[test]
    fn without_randomness_nothing_is_sealed() {
        struct Dry;
        impl Randomness for Dry {
            fn fill(&self, _: &mut [u8]) -> Result<(), NoRandomness> {
                Err(NoRandomness("it is dry".to_owned()))
            }
        }
        let (vault, secret, _) = sealed();
        assert!(matches!(vault.seal(7, &secret, &Dry), Err(Error::NoRandomness(_))));
        assert!(Secret::make(&Dry).is_err());
    }
}
