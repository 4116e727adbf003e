//! The one secret of a server, and what is hashed with it.

use std::path::Path;

use backstitch::Timestamp;
use backstitch::store::Error;
use backstitch_modules::key_file::{self, Key};
use backstitch_modules::randomness::{Randomness, SystemRandomness};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::keys::{self, Kept, Standing};
use crate::config::Secret;
use crate::database::Database;

/// Bytes of a secret that is made here.
const LENGTH: usize = 32;

/// The secret of the server on this database: the one of the settings, or else, beside a `SQLite` file, one that is made
/// on first use and kept in a file of its own. `None` where there is neither.
pub(crate) async fn server_secret(
    database: &Database,
    secret: Option<&Secret>,
    now: Timestamp,
) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    match (secret, database) {
        (Some(secret), _) => Ok(Some(Zeroizing::new(secret.as_bytes().to_vec()))),
        (None, Database::Sqlite(file)) => {
            let is_good = |key: &Kept| key.standing(now) == Standing::Good;
            let needed = keys::list(database).await?.iter().any(is_good);
            Ok(Some(Zeroizing::new(kept_beside(file.path(), needed)?.to_vec())))
        }
        (None, Database::Postgres(_)) => Ok(None),
    }
}

/// Keyed hashes, each for one purpose, so that none can pass for another.
#[derive(Clone)]
pub(crate) struct Hasher(Hmac<Sha256>);

/// What a hash is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    ApiKey,
    StreamToken,
    Session,
    Form,
}

impl Hasher {
    pub(crate) fn new(secret: &[u8]) -> Result<Self, Error> {
        let keyed = Hmac::new_from_slice(secret);
        keyed.map(Self).map_err(|why| Error::Refused(format!("the secret cannot be used: {why}")))
    }

    /// A hasher that nobody else has: what it hashed is worth nothing after this process.
    pub(crate) fn for_this_process() -> Result<Self, Error> {
        Self::new(&random()?)
    }

    /// What is kept of an API key.
    pub(crate) fn api_key(&self, key: &str) -> [u8; 32] {
        self.hash(Purpose::ApiKey, key.as_bytes())
    }

    pub(crate) fn hash(&self, purpose: Purpose, text: &[u8]) -> [u8; 32] {
        self.over(purpose, text).finalize().into_bytes().into()
    }

    /// Whether the hash is that of the text, in a time that does not tell how much of it is.
    pub(crate) fn matches(&self, purpose: Purpose, text: &[u8], hash: &[u8]) -> bool {
        self.over(purpose, text).verify_slice(hash).is_ok()
    }

    fn over(&self, purpose: Purpose, text: &[u8]) -> Hmac<Sha256> {
        let label: &[u8] = match purpose {
            Purpose::ApiKey => b"api key\0",
            Purpose::StreamToken => b"stream token\0",
            Purpose::Session => b"session\0",
            Purpose::Form => b"form\0",
        };
        self.0.clone().chain_update(label).chain_update(text)
    }
}

/// The machine's randomness.
pub(crate) fn random() -> Result<[u8; LENGTH], Error> {
    let mut bytes = [0; LENGTH];
    SystemRandomness.fill(&mut bytes).map_err(|why| Error::Unavailable(why.to_string()))?;
    Ok(bytes)
}

/// The secret of this file's keys. Where good keys need it, none is made in the place of one that is gone: they would all
/// be unknown, and nobody would be told why.
fn kept_beside(database: &Path, needed: bool) -> Result<Key, Error> {
    let path = key_file::beside(database, ".key");
    if needed && !path.exists() {
        return Err(Error::Refused(format!(
            "there are API keys in {}, but the secret they were made with is gone: restore the file {}, or revoke \
             every key (`backstitch keys list`, `backstitch keys revoke ID`) and create new ones",
            database.display(),
            path.display()
        )));
    }
    key_file::read_or_make(&path, &SystemRandomness).map_err(|why| {
        Error::Refused(format!(
            "the secret cannot be used: {why}; restore the file, or revoke every API key, remove the file, create keys \
             anew and rotate the secret of every webhook subscription"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_made_once_and_one_that_cannot_be_used_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("sagas.db");
        assert!(
            kept_beside(&database, true).is_err(),
            "keys that there are need the one they were made with"
        );
        let first = kept_beside(&database, false).unwrap();
        assert_eq!(kept_beside(&database, true).unwrap(), first);
        std::fs::write(folder.path().join("sagas.db.key"), "changed").unwrap();
        let why = kept_beside(&database, true).unwrap_err().to_string();
        assert!(why.contains("sagas.db.key") && why.contains("restore the file"), "{why}");
    }

    #[test]
    fn a_hash_serves_one_purpose_only() {
        let hasher = Hasher::new(b"secret").unwrap();
        let hash = hasher.hash(Purpose::ApiKey, b"text");
        assert!(hasher.matches(Purpose::ApiKey, b"text", &hash));
        assert!(!hasher.matches(Purpose::StreamToken, b"text", &hash));
        assert!(!hasher.matches(Purpose::ApiKey, b"other", &hash));
        assert!(!Hasher::new(b"another").unwrap().matches(Purpose::ApiKey, b"text", &hash));
    }
}
