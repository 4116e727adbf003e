//! The schema and how a database gets to it.

use deadpool_postgres::{GenericClient, Object};

use super::fault;
use crate::store::Error;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In the order they are applied; the first one is version 1.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "sagas", sql: include_str!("../../../migrations/postgres/0001_sagas.sql") },
    Migration { name: "jobs", sql: include_str!("../../../migrations/postgres/0002_jobs.sql") },
    Migration { name: "outbox", sql: include_str!("../../../migrations/postgres/0003_outbox.sql") },
];

/// Whoever migrates holds this lock of the database; the number is "backstit" in ASCII.
const LOCK: i64 = 0x6261_636b_7374_6974;

/// Brings the database to the newest schema, whole or not at all, one process at a time.
pub(super) async fn migrate(client: &mut Object) -> Result<(), Error> {
    // A database that is up to date is left alone: most starts need no right to change it.
    if version(client).await.map_err(|why| fault::error(&why))? == newest() {
        return Ok(());
    }
    let outcome = apply(client).await;
    outcome.map_err(|why| fault::error(&why))?.map_or(Ok(()), Err)
}

async fn apply(client: &mut Object) -> Result<Option<Error>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction
        .batch_execute(&format!(
            "set local statement_timeout = 0;
             set local lock_timeout = 0;
             select pg_advisory_xact_lock({LOCK})"
        ))
        .await?;
    transaction
        .batch_execute(
            "create schema if not exists backstitch;
             create table if not exists backstitch.schema_migrations (
                 version    bigint      primary key,
                 name       text        not null,
                 applied_at timestamptz not null default now()
             )",
        )
        .await?;
    let found = version(&transaction).await?;
    if found > newest() {
        return Ok(Some(Error::NewerSchema { found, known: newest() }));
    }
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        transaction.batch_execute(migration.sql).await?;
        transaction
            .execute(
                "insert into backstitch.schema_migrations (version, name) values ($1, $2)",
                &[&version, &migration.name],
            )
            .await?;
    }
    transaction.commit().await?;
    Ok(None)
}

fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

async fn version(client: &impl GenericClient) -> Result<i64, tokio_postgres::Error> {
    let there = "select to_regclass('backstitch.schema_migrations') is not null";
    if !client.query_one(there, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let newest = "select coalesce(max(version), 0) from backstitch.schema_migrations";
    client.query_one(newest, &[]).await?.try_get(0)
}
