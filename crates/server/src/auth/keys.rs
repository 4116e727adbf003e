//! API keys as they are kept.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstitch::store::postgres::confirm;
use backstitch::store::{Corrupt, Error};
use backstitch::{Timestamp, sql};

use super::role::Role;
use crate::database::{Database, connection, told};

/// A key without the key.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) id: i64,
    pub(crate) hash: Vec<u8>,
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) last_four: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
}

/// Why a key opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    Expired,
    Revoked,
}

impl Kept {
    pub(crate) fn standing(&self, now: Timestamp) -> Standing {
        if self.revoked_at.is_some() {
            Standing::Revoked
        } else if self.expires_at.is_some_and(|end| end <= now) {
            Standing::Expired
        } else {
            Standing::Good
        }
    }
}

/// A key to be kept.
pub(crate) struct New {
    pub(crate) hash: [u8; 32],
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) last_four: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Keeps a key and gives its number.
pub(crate) async fn insert(database: &Database, key: New) -> Result<i64, Error> {
    match database {
        Database::Sqlite(file) => {
            file.run(move |connection| {
                let sql = sql!(sqlite / api_keys::insert);
                let values = rusqlite::params![
                    key.hash,
                    key.role.as_str(),
                    key.name,
                    key.last_four,
                    key.created_at.as_micros(),
                    key.expires_at.map(Timestamp::as_micros)
                ];
                Ok(connection.query_row(sql, values, |row| row.get("id"))?)
            })
            .await
        }
        Database::Postgres(pool) => {
            let sql = sql!(postgres / api_keys::insert);
            let row = connection(pool)
                .await?
                .query_one(
                    sql,
                    &[
                        &key.hash.as_slice(),
                        &key.role.as_str(),
                        &key.name,
                        &key.last_four,
                        &system_time(key.created_at),
                        &key.expires_at.map(system_time),
                    ],
                )
                .await
                .map_err(told)?;
            row.try_get("id").map_err(told)
        }
    }
}

/// Every key there ever was, oldest first.
pub(crate) async fn list(database: &Database) -> Result<Vec<Kept>, Error> {
    match database {
        Database::Sqlite(file) => {
            let rows = file
                .run(|connection| {
                    let mut statement = connection.prepare_cached(sql!(sqlite / api_keys::list))?;
                    let rows = statement.query_map([], |row| {
                        Ok(Row {
                            id: row.get("id")?,
                            hash: row.get("hash")?,
                            role: row.get("role")?,
                            name: row.get("name")?,
                            last_four: row.get("last_four")?,
                            created_at: Timestamp::from_micros(row.get("created_at")?),
                            expires_at: row.get::<_, Option<i64>>("expires_at")?.map(Timestamp::from_micros),
                            revoked_at: row.get::<_, Option<i64>>("revoked_at")?.map(Timestamp::from_micros),
                        })
                    })?;
                    Ok(rows.collect::<Result<Vec<_>, _>>()?)
                })
                .await?;
            rows.into_iter().map(Row::read).collect()
        }
        Database::Postgres(pool) => {
            let sql = sql!(postgres / api_keys::list);
            let rows = connection(pool).await?.query(sql, &[]).await.map_err(told)?;
            rows.iter().map(|row| from_postgres(row).map_err(told)?.read()).collect()
        }
    }
}

/// Revokes a key; `false` when there is none of this number, or it is revoked already.
pub(crate) async fn revoke(database: &Database, id: i64, now: Timestamp) -> Result<bool, Error> {
    let changed = match database {
        Database::Sqlite(file) => {
            file.run(move |connection| {
                let sql = sql!(sqlite / api_keys::revoke);
                Ok(connection.execute(sql, (id, now.as_micros()))? as u64)
            })
            .await?
        }
        Database::Postgres(pool) => {
            let sql = sql!(postgres / api_keys::revoke);
            let connection = connection(pool).await?;
            let changed = connection.execute(sql, &[&id, &system_time(now)]).await.map_err(told)?;
            if changed == 0 {
                // The request that revoked it before may have an unknown outcome.
                confirm(&**connection).await.map_err(told)?;
            }
            changed
        }
    };
    Ok(changed == 1)
}

/// A row whose role has not been read yet.
struct Row {
    id: i64,
    hash: Vec<u8>,
    role: String,
    name: String,
    last_four: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl Row {
    fn read(self) -> Result<Kept, Error> {
        let Self { id, hash, role, name, last_four, created_at, expires_at, revoked_at } = self;
        let role = role.parse().map_err(|why| {
            Error::from(Corrupt { table: "api_keys", column: "role", id: id.to_string(), why })
        })?;
        Ok(Kept { id, hash, role, name, last_four, created_at, expires_at, revoked_at })
    }
}

fn from_postgres(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    Ok(Row {
        id: row.try_get("id")?,
        hash: row.try_get("hash")?,
        role: row.try_get("role")?,
        name: row.try_get("name")?,
        last_four: row.try_get("last_four")?,
        created_at: timestamp(row.try_get("created_at")?),
        expires_at: row.try_get::<_, Option<SystemTime>>("expires_at")?.map(timestamp),
        revoked_at: row.try_get::<_, Option<SystemTime>>("revoked_at")?.map(timestamp),
    })
}

pub(super) fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0))
}

fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::default().plus(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}
