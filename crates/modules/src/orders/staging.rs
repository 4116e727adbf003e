//! What waits to be applied, in the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstitch::store::product::Database;
use backstitch::{Engine, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::error::Error;

/// Of the digest of a change, so many bytes tell it from all that are staged in its place.
const REVISION: usize = 8;

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Services,
    Timeouts,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Timeouts => "timeouts",
        }
    }
}

/// A change that waits, and the text by which it is known from one that is staged after it.
pub(super) struct Staged<T> {
    pub(super) change: T,
    pub(super) text: String,
}

impl<T> Staged<T> {
    /// The same for the same change and no other, short enough to be written into an address.
    pub(super) fn revision(&self) -> String {
        let hash = Sha256::digest(&self.text);
        let start = hash.iter().take(REVISION).fold(0u64, |start, byte| start << 8 | u64::from(*byte));
        format!("{start:016x}")
    }
}

pub(super) async fn load<T: DeserializeOwned>(
    engine: &Engine,
    kind: Kind,
) -> Result<Option<Staged<T>>, Error> {
    let kind = kind.name();
    let text: Option<String> = match engine.database() {
        Database::Sqlite(file) => {
            let read = move |connection: &rusqlite::Connection| {
                let mut statement =
                    connection.prepare_cached("select staged from order_settings where kind = ?1")?;
                let mut rows = statement.query([kind])?;
                rows.next()?.map(|row| row.get(0)).transpose()
            };
            file.read_product(read).await?
        }
        Database::Postgres(server) => {
            let rows =
                server.read_product("select staged from order_settings where kind = $1", &[&kind]).await?;
            rows.first()
                .map(|row| row.try_get(0))
                .transpose()
                .map_err(|why| Error::Unreadable(why.to_string()))?
        }
    };
    let read = |text: String| match serde_json::from_str(&text) {
        Ok(change) => Ok(Staged { change, text }),
        Err(why) => Err(Error::Unreadable(why.to_string())),
    };
    text.map(read).transpose()
}

pub(super) async fn store<T: Serialize>(
    engine: &Engine,
    kind: Kind,
    change: T,
    at: Timestamp,
) -> Result<Staged<T>, Error> {
    let kind = kind.name();
    let text = serde_json::to_string(&change).map_err(|why| Error::Unreadable(why.to_string()))?;
    let staged = Staged { change, text: text.clone() };
    match engine.database() {
        Database::Sqlite(file) => {
            let write = move |transaction: &rusqlite::Transaction<'_>| {
                transaction.execute(
                    "insert into order_settings (kind, staged, staged_at) values (?1, ?2, ?3)
                     on conflict (kind) do update set staged = excluded.staged, staged_at = excluded.staged_at",
                    rusqlite::params![kind, text, at.as_micros()],
                )
            };
            file.write_product(write).await?;
        }
        Database::Postgres(server) => {
            let sql = "insert into order_settings (kind, staged, staged_at) values ($1, $2, $3)
                on conflict (kind) do update set staged = excluded.staged, staged_at = excluded.staged_at";
            server.write_product(sql, &[&kind, &text, &system_time(at)]).await?;
        }
    }
    Ok(staged)
}

/// Forgets what is staged, or only this text if it still is; whether there was anything.
pub(super) async fn forget(engine: &Engine, kind: Kind, only: Option<&str>) -> Result<bool, Error> {
    let kind = kind.name();
    Ok(match engine.database() {
        Database::Sqlite(file) => {
            let only = only.map(str::to_owned);
            let delete = move |transaction: &rusqlite::Transaction<'_>| {
                let sql = "delete from order_settings where kind = ?1 and staged = coalesce(?2, staged)";
                transaction.execute(sql, rusqlite::params![kind, only])
            };
            file.write_product(delete).await? > 0
        }
        Database::Postgres(server) => {
            let sql = "delete from order_settings where kind = $1 and staged = coalesce($2, staged)
                returning kind";
            !server.write_product(sql, &[&kind, &only]).await?.is_empty()
        }
    })
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(at.as_micros().unsigned_abs())
}
