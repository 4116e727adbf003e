//! How a database gets its schema.

use std::path::{Path, PathBuf};

use backstitch::store::Error;
use backstitch::store::postgres::PostgresStore;
use backstitch_testkit::postgres::empty_database;

use crate::postgres_store::support::{fresh_store, session};
use crate::repository;

fn migrations() -> Vec<PathBuf> {
    repository::files_under(&repository::root().join("crates/engine/migrations/postgres"))
}

/// The version of the schema that this build has.
fn newest() -> usize {
    migrations().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_may_start_at_once_on_an_empty_database() {
    let address = empty_database().await;
    let connecting = (0..8).map(|_| {
        let address = address.clone();
        tokio::spawn(async move { PostgresStore::connect(&address).await.map(|_| ()) })
    });
    for connected in connecting.collect::<Vec<_>>() {
        connected.await.unwrap().unwrap();
    }
    let session = session(&address).await;
    let migrations = session
        .query("select name from backstitch.product_migrations where product = 'engine'", &[])
        .await
        .unwrap();
    assert_eq!(migrations.len(), newest());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_left_alone() {
    let (_, address) = fresh_store().await;
    let session = session(&address).await;
    let newer = "insert into backstitch.product_migrations (product, version, name)
        values ('engine', 99, 'from the future')";
    session.execute(newer, &[]).await.unwrap();
    let refused = PostgresStore::connect(&address).await.err();
    let Some(Error::NewerSchema { found: 99, known }) = refused else { panic!("{refused:?}") };
    assert_eq!(usize::try_from(known), Ok(newest()));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_taken_in_public_are_left_alone() {
    let address = empty_database().await;
    let session = session(&address).await;
    session.batch_execute("create table outbox_orders (note text)").await.unwrap();
    PostgresStore::connect(&address).await.unwrap();
    let own = "insert into outbox_orders (note) values ('mine')";
    session.batch_execute(own).await.unwrap();
    session.batch_execute("select idempotency_key from idempo_ledger").await.unwrap();
    session.batch_execute("select idempotency_key from backstitch.outbox_orders").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_waits_for_the_disk() {
    let (_store, address) = fresh_store().await;
    let session = session(&address).await;
    // A careless default of the database, which every connection made from now on would take.
    let name = address.rsplit('/').next().unwrap();
    session.batch_execute(&format!("alter database {name} set synchronous_commit = off")).await.unwrap();
    let (store, probe) =
        (PostgresStore::connect(&address).await.unwrap(), crate::postgres_store::support::new_id());
    backstitch::store::SagaStore::commit(&store, &[crate::postgres_store::support::start(probe)])
        .await
        .unwrap();
    // What a session has set cannot be asked from outside, so a trigger inside it tells.
    session
        .batch_execute(
            "create table seen (setting text);
             create function tell() returns trigger language plpgsql as $$ begin
                 insert into public.seen select current_setting('synchronous_commit'); return null; end $$;
             create trigger tell after insert on backstitch.sagas for each statement execute function tell();",
        )
        .await
        .unwrap();
    backstitch::store::SagaStore::commit(
        &store,
        &[crate::postgres_store::support::start(crate::postgres_store::support::new_id())],
    )
    .await
    .unwrap();
    let seen: String = session.query_one("select setting from seen", &[]).await.unwrap().get(0);
    assert_eq!(seen, "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_fits_the_schema() {
    let (_, address) = fresh_store().await;
    let session = session(&address).await;
    session.batch_execute("set search_path = backstitch").await.unwrap();
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine");
    let mut prepared = 0;
    for folder in ["queries/postgres", "src/store/postgres", "src/jobs/postgres"] {
        for entry in std::fs::read_dir(engine.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sql") {
                let statement = std::fs::read_to_string(&path).unwrap();
                let fits = session.prepare(&statement).await;
                assert!(fits.is_ok(), "{}: {:?}", path.display(), fits.err());
                prepared += 1;
            }
        }
    }
    assert!(prepared > 20, "only {prepared} statements were found");
}
