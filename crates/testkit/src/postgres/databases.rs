//! Databases on the shared server of a test run.
//!
//! Migrating a database takes longer than most tests. So the first test that needs a set of tables migrates a template,
//! and every
//! test gets a copy of it (`CREATE DATABASE … TEMPLATE`).

use std::sync::atomic::{AtomicU32, Ordering};

use backstitch::store::postgres::PostgresStore;
use backstitch::store::product::Schema;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::{Error, SHARED_URL_VARIABLE};

/// The address of the test run's shared server.
///
/// # Panics
///
/// When there is none: a missing `PostgreSQL` must fail a test, never skip it.
#[must_use]
pub fn shared_url() -> String {
    std::env::var(SHARED_URL_VARIABLE).unwrap_or_else(|error| {
        panic!(
            "{SHARED_URL_VARIABLE}: {error}. This test needs PostgreSQL: run `./test`, which starts one \
             (`./test -p CRATE TEST_NAME` for a single test)"
        )
    })
}

/// Creates an empty database on the shared server and returns its address. For tests of migrations.
///
/// # Panics
///
/// When there is no shared server, or it refuses.
pub async fn empty_database() -> String {
    created(create(&shared_url(), None).await)
}

/// Creates a database with the engine's tables on the shared server and returns its address.
///
/// # Panics
///
/// When there is no shared server, or it refuses.
pub async fn fresh_database() -> String {
    migrated_database(&[]).await
}

/// Creates a database with the tables of the engine and of these products.
///
/// # Panics
///
/// When there is no shared server, or it refuses.
pub async fn migrated_database(products: &[&Schema]) -> String {
    let names = products.iter().map(|schema| schema.product);
    let template = ["engine"].into_iter().chain(names).collect::<Vec<_>>().join("_");
    database_from(&template, async |url: &str| {
        if let Err(why) = PostgresStore::connect_with(url, products).await {
            panic!("{url}: {why}");
        }
    })
    .await
}

/// Creates a copy of the template with this name. If the run has no such template yet, `migrate` makes it from an empty
/// database.
///
/// # Panics
///
/// When there is no shared server, or it refuses.
pub async fn database_from(template: &str, migrate: impl AsyncFnOnce(&str)) -> String {
    let shared = shared_url();
    let template = format!("template_{template}");
    match create(&shared, Some(&template)).await {
        Err(Error::CreateDatabase(why)) if why.code() == Some(&SqlState::INVALID_CATALOG_NAME) => {}
        other => return created(other),
    }
    if let Err(error) = build_template(&shared, &template, migrate).await {
        panic!("{SHARED_URL_VARIABLE}={shared}: cannot build {template}: {error}");
    }
    created(create(&shared, Some(&template)).await)
}

fn created(outcome: Result<String, Error>) -> String {
    outcome.unwrap_or_else(|error| panic!("{SHARED_URL_VARIABLE}={}: {error:?}", shared_url()))
}

/// Tests are processes that start at once: an advisory lock lets one of them build while the others wait.
async fn build_template(
    shared: &str,
    template: &str,
    migrate: impl AsyncFnOnce(&str),
) -> Result<(), tokio_postgres::Error> {
    let session = Session::open(shared).await?;
    session.client.execute("select pg_advisory_lock(hashtext($1))", &[&template]).await?;
    let exists = "select 1 from pg_database where datname = $1";
    if session.client.query_opt(exists, &[&template]).await?.is_some() {
        session.close().await;
        return Ok(());
    }
    let draft = format!("draft_of_{template}");
    // An earlier test may have failed during the migration.
    session.client.batch_execute(&format!("drop database if exists {draft} with (force)")).await?;
    session.client.batch_execute(&format!("create database {draft}")).await?;
    migrate(&with_database(shared, &draft)).await;
    // A template in use can be neither renamed nor copied.
    session.client.batch_execute(&format!("alter database {draft} with allow_connections false")).await?;
    let end = "select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = $1";
    session.client.query(end, &[&draft]).await?;
    session.client.batch_execute(&format!("alter database {draft} rename to {template}")).await?;
    session.close().await;
    Ok(())
}

/// Creates a database beside the one at this address, with a unique name.
pub(super) async fn create(url: &str, template: Option<&str>) -> Result<String, Error> {
    static COUNTER: AtomicU32 = AtomicU32::new(1);
    let session = Session::open(url).await?;
    // Copying the files is faster than logging every page of them. The server must not crash, and a template is never
    // written.
    let template =
        template.map(|template| format!(" template {template} strategy file_copy")).unwrap_or_default();
    let name = loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        match session.client.batch_execute(&format!("create database {name}{template}")).await {
            Ok(()) => break name,
            // Left by an earlier process with the same id.
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_DATABASE) => {}
            Err(error) => return Err(error.into()),
        }
    };
    session.close().await;
    Ok(with_database(url, &name))
}

pub(super) struct Session {
    pub(super) client: Client,
    connection: tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Session {
    pub(super) async fn open(url: &str) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        Ok(Self { client, connection: tokio::spawn(connection) })
    }

    /// Waits until the session has ended, for tests that count sessions.
    pub(super) async fn close(self) {
        drop(self.client);
        self.connection.await.ok();
    }
}

/// The same address with another database.
fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = url.split_once('?').map_or((url, None), |(a, p)| (a, Some(p)));
    let authority = address.find("://").map_or(0, |scheme| scheme + "://".len());
    let server = address[authority..].find('/').map_or(address, |slash| &address[..authority + slash]);
    match parameters {
        Some(parameters) => format!("{server}/{database}?{parameters}"),
        None => format!("{server}/{database}"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn a_database_name_replaces_the_one_in_the_address() {
        for (url, expected) in [
            ("postgres://postgres@127.0.0.1:5432/postgres", "postgres://postgres@127.0.0.1:5432/x"),
            ("postgres://postgres@127.0.0.1:5432", "postgres://postgres@127.0.0.1:5432/x"),
            ("postgres://u:p@db.example/a?sslmode=disable", "postgres://u:p@db.example/x?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "x"), expected);
        }
    }
}
