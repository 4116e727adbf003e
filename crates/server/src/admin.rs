//! Maintenance of a server's database without the server: migrations and API keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::Clock;
use backstitch::store;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::sqlite::SqliteStore;
use backstitch_api::time::{Time, rfc3339};
use serde::Serialize;

use crate::Config;
use crate::auth::keys::{self, Kept, New, Standing};
use crate::auth::{Hasher, key, random, server_secret};
use crate::config::Secret;
use crate::database::{Database, refuse_lost_database};
use crate::server::PRODUCTS;

pub use crate::auth::Role;

/// Migrates the tables of the engine, of its products and of the server.
///
/// # Errors
/// When the database cannot be opened or changed, or is newer than this program.
pub async fn migrate(config: &Config, clock: &Arc<dyn Clock>) -> Result<(), store::Error> {
    if let Some(path) = config.db.strip_prefix("sqlite:").map(PathBuf::from) {
        let clock = clock.clone();
        let opening = tokio::task::spawn_blocking(move || {
            refuse_lost_database(&path)?;
            SqliteStore::open_with(&path, clock, &PRODUCTS)
        });
        opening.await.map_err(|why| store::Error::Unavailable(why.to_string()))??;
    } else {
        PostgresStore::connect_in(&config.db, &config.schema, &PRODUCTS).await?;
    }
    Database::open(config, clock).await?;
    Ok(())
}

/// The API keys in a database. Changes reach running servers within two seconds.
pub struct ApiKeys {
    database: Database,
    secret: Option<Secret>,
    clock: Arc<dyn Clock>,
}

/// An API key as it is listed: everything but the key itself, of which only a hash is stored.
#[derive(Clone, Debug, Serialize)]
pub struct ApiKey {
    /// Its number.
    pub id: i64,
    /// Who holds it.
    pub name: String,
    /// What it permits.
    pub role: &'static str,
    /// `good`, `expired` or `revoked`.
    pub state: &'static str,
    /// The end of the key, by which people recognise it.
    pub last_four: String,
    /// When it was created.
    pub created_at: Time,
    /// When it expires, if ever.
    pub expires_at: Option<Time>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Time>,
}

/// A key that was just created. The key is shown once and cannot be recovered.
pub struct CreatedKey {
    /// Its number.
    pub id: i64,
    /// The key.
    pub key: String,
}

/// Why a key was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateKeyError {
    /// The holder's name is empty.
    #[error("--name is empty: say who holds the key")]
    EmptyName,
    /// There is no secret to hash the key with.
    #[error(
        "keys on PostgreSQL need a secret: set `secret` or BACKSTITCH_SECRET, to the same value here and for every \
         server; `openssl rand -base64 32` makes one"
    )]
    NoSecret,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl ApiKeys {
    /// Opens the keys of the configured database, whether or not a server runs on it.
    ///
    /// # Errors
    /// When the database cannot be opened or its tables cannot be migrated.
    pub async fn open(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, store::Error> {
        let database = Database::open(config, &clock).await?;
        Ok(Self { database, secret: config.secret.clone(), clock })
    }

    /// Creates a key.
    ///
    /// # Errors
    /// When the name is empty, there is no secret, or the database fails.
    pub async fn create(
        &self,
        role: Role,
        name: &str,
        expires_in: Option<Duration>,
    ) -> Result<CreatedKey, CreateKeyError> {
        let now = self.clock.now();
        let secret = server_secret(&self.database, self.secret.as_ref(), now).await?;
        let hasher = Hasher::new(&secret.ok_or(CreateKeyError::NoSecret)?)?;
        if name.trim().is_empty() {
            return Err(CreateKeyError::EmptyName);
        }
        let key = key::from_random(random()?);
        let new = New {
            hash: hasher.api_key(&key),
            role,
            name: name.to_owned(),
            last_four: key::last_four(&key).to_owned(),
            created_at: now,
            expires_at: expires_in.map(|time| now.plus(time)),
        };
        Ok(CreatedKey { id: keys::insert(&self.database, new).await?, key })
    }

    /// Lists all keys, also expired and revoked ones, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn list(&self) -> Result<Vec<ApiKey>, store::Error> {
        let now = self.clock.now();
        Ok(keys::list(&self.database).await?.into_iter().map(|key| ApiKey::at(key, now)).collect())
    }

    /// Revokes a key for good. Returns `false` when no active key has this number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn revoke(&self, id: i64) -> Result<bool, store::Error> {
        keys::revoke(&self.database, id, self.clock.now()).await
    }
}

impl ApiKey {
    fn at(key: Kept, now: Timestamp) -> Self {
        let state = match key.standing(now) {
            Standing::Good => "good",
            Standing::Expired => "expired",
            Standing::Revoked => "revoked",
        };
        Self {
            id: key.id,
            name: key.name,
            role: key.role.as_str(),
            state,
            last_four: key.last_four,
            created_at: rfc3339(key.created_at),
            expires_at: key.expires_at.map(rfc3339),
            revoked_at: key.revoked_at.map(rfc3339),
        }
    }
}
