//! Sessions that somebody signed out of: kept until they would have ended by themselves, so that nobody who has the cookie comes
//! back with it.

use std::collections::HashSet;

use backstitch::store::Error;
use backstitch::store::postgres::confirm;
use backstitch::{Timestamp, sql};

use super::keys::system_time;
use super::session::Session;
use crate::database::{Database, connection, told};

/// Ends a session, and forgets those whose time is over.
pub(super) async fn end(database: &Database, session: Session, now: Timestamp) -> Result<(), Error> {
    let Session { nonce, ends_at, .. } = session;
    match database {
        Database::Sqlite(file) => {
            file.run(move |connection| {
                let transaction = connection.transaction()?;
                let forget = sql!(sqlite / sessions::forget);
                transaction.execute(forget, [now.as_micros()])?;
                let end = sql!(sqlite / sessions::end);
                transaction.execute(end, (nonce, ends_at.as_micros()))?;
                Ok(transaction.commit()?)
            })
            .await
        }
        Database::Postgres(pool) => {
            let connection = connection(pool).await?;
            let end = sql!(postgres / sessions::end);
            connection.execute(end, &[&nonce, &system_time(ends_at)]).await.map_err(told)?;
            // The request that ended it before may have an unknown outcome.
            confirm(&**connection).await.map_err(told)?;
            let forget = sql!(postgres / sessions::forget);
            connection.execute(forget, &[&system_time(now)]).await.map_err(told)?;
            Ok(())
        }
    }
}

/// Those whose time is not over.
pub(super) async fn list(database: &Database, now: Timestamp) -> Result<HashSet<i64>, Error> {
    match database {
        Database::Sqlite(file) => {
            file.run(move |connection| {
                let sql = sql!(sqlite / sessions::list);
                let mut statement = connection.prepare_cached(sql)?;
                let nonces = statement.query_map([now.as_micros()], |row| row.get("nonce"))?;
                Ok(nonces.collect::<Result<_, _>>()?)
            })
            .await
        }
        Database::Postgres(pool) => {
            let sql = sql!(postgres / sessions::list);
            let rows = connection(pool).await?.query(sql, &[&system_time(now)]).await.map_err(told)?;
            rows.iter().map(|row| row.try_get("nonce").map_err(told)).collect()
        }
    }
}
