//! How a database gets the server's own tables.

use backstitch::Timestamp;
use backstitch::store::Error;
use backstitch::store::postgres::{after_product_migrations, before_product_migrations};
use backstitch::store::product::{Migration, Schema};
use deadpool_postgres::{GenericClient, Object};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::sqlite::Fault;
use super::told;

macro_rules! migration {
    ($number:literal, $name:literal) => {
        Migration {
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $number, "_", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $number, "_", $name, ".sql")),
        }
    };
}

/// The server's own tables.
pub(crate) static SCHEMA: Schema = Schema {
    product: "server",
    breaking: &[],
    migrations: &[
        migration!("0001", "api_keys"),
        migration!("0002", "audit"),
        migration!("0003", "audit_words"),
        migration!("0004", "ended_sessions"),
        migration!("0005", "guards"),
    ],
};

/// Whoever migrates holds this lock of the database; the number is "bstchsrv" in ASCII.
const LOCK: i64 = 0x6273_7463_6873_7276;

fn missing(found: i64) -> Result<impl Iterator<Item = (i64, &'static Migration)>, Error> {
    let known = SCHEMA.newest();
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    Ok((1..).zip(SCHEMA.migrations).filter(move |(version, _)| *version > found))
}

/// Brings a file up to date, whole or not at all.
pub(super) fn on_sqlite(connection: &Connection, now: Timestamp) -> Result<(), Fault> {
    if sqlite_version(connection)? == SCHEMA.newest() {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "create table if not exists backstitch_server_migrations (
            version integer primary key, name text not null, applied_at integer not null
        ) strict",
    )?;
    for (version, migration) in missing(sqlite_version(&transaction)?).map_err(Fault::Told)? {
        transaction.execute_batch(migration.sqlite)?;
        transaction.execute(
            "insert into backstitch_server_migrations (version, name, applied_at) values (?1, ?2, ?3)",
            params![version, migration.name, now.as_micros()],
        )?;
    }
    Ok(transaction.commit()?)
}

fn sqlite_version(connection: &Connection) -> rusqlite::Result<i64> {
    let there = "select 1 from sqlite_schema where name = 'backstitch_server_migrations'";
    if connection.query_row(there, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let newest = "select coalesce(max(version), 0) from backstitch_server_migrations";
    connection.query_row(newest, [], |row| row.get(0))
}

/// Brings a database up to date, whole or not at all, one process at a time.
pub(super) async fn on_postgres(client: &mut Object) -> Result<(), Error> {
    // A database that is up to date is left alone: most starts need no right to change it.
    if postgres_version(client).await.map_err(told)? == SCHEMA.newest() {
        return Ok(());
    }
    let mut transaction = client.transaction().await.map_err(told)?;
    let alone = format!(
        "set local statement_timeout = 0;
         set local lock_timeout = 0;
         select pg_advisory_xact_lock({LOCK});
         create schema if not exists backstitch;
         create table if not exists backstitch.backstitch_server_migrations (
             version    bigint      primary key,
             name       text        not null,
             applied_at timestamptz not null default now()
         )"
    );
    transaction.batch_execute(&alone).await.map_err(told)?;
    let found = postgres_version(&transaction).await.map_err(told)?;
    let missing = missing(found)?;
    before_product_migrations(&mut transaction, &SCHEMA, found).await?;
    for (version, migration) in missing {
        transaction.batch_execute(migration.postgres).await.map_err(told)?;
        let done = "insert into backstitch.backstitch_server_migrations (version, name) values ($1, $2)";
        transaction.execute(done, &[&version, &migration.name]).await.map_err(told)?;
    }
    after_product_migrations(&mut transaction, &SCHEMA, found).await?;
    transaction.commit().await.map_err(told)
}

async fn postgres_version(client: &impl GenericClient) -> Result<i64, tokio_postgres::Error> {
    let there = "select to_regclass('backstitch.backstitch_server_migrations') is not null";
    if !client.query_one(there, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let newest = "select coalesce(max(version), 0) from backstitch.backstitch_server_migrations";
    client.query_one(newest, &[]).await?.try_get(0)
}
