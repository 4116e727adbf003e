//! Nodes of several versions on one database.

use std::time::Duration;

use backstitch::store::Error;
use backstitch::store::postgres::PostgresStore;
use backstitch::{Context, Engine, Options, Saga, Step};
use backstitch_testkit::postgres::{empty_database, fresh_database};
use tokio_postgres::Client;

use crate::postgres_store::support::{SOON, session};
use crate::repository;

/// A database as the version before the newest breaking migration left it.
async fn older_database() -> (String, Client) {
    let address = empty_database().await;
    let client = session(&address).await;
    let record = "create schema backstitch;
        create table backstitch.schema_migrations (
            version bigint primary key, name text not null, applied_at timestamptz not null default now()
        );
        set search_path = backstitch";
    client.batch_execute(record).await.unwrap();
    let migrations = repository::files_under(&repository::root().join("crates/engine/migrations/postgres"));
    let older = migrations.iter().take_while(|path| !path.ends_with("0010_mixed_versions.sql"));
    for (version, path) in (1_i64..).zip(older) {
        client.batch_execute(&repository::read(path)).await.unwrap();
        let done = "insert into schema_migrations (version, name) values ($1, 'older')";
        client.execute(done, &[&version]).await.unwrap();
    }
    (address, client)
}

async fn version(client: &Client) -> i64 {
    client.query_one("select max(version) from schema_migrations", &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_version_waits_until_older_nodes_are_gone() {
    let (address, client) = older_database().await;
    let before = version(&client).await;
    let join = "insert into nodes (name, lease_ms) values ('old', 3600000)";
    client.batch_execute(join).await.unwrap();
    let refused = PostgresStore::connect(&address).await.err();
    assert!(matches!(&refused, Some(Error::OlderNodes(names)) if names == "old"), "{refused:?}");
    assert_eq!(version(&client).await, before, "older nodes go on with the schema that they know");

    // It is stopped for so long that it counts as dead, and goes on later.
    client.batch_execute("update nodes set heartbeat_at = clock() - interval '2 h'").await.unwrap();
    PostgresStore::connect(&address).await.unwrap();
    assert!(version(&client).await > before);
    for statement in [join, "update nodes set heartbeat_at = clock()"] {
        let refused = client.batch_execute(statement).await.unwrap_err();
        let why = refused.as_db_error().unwrap().message();
        assert!(why.contains("upgrade this node"), "{statement}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn older_node_is_not_ready_once_a_newer_has_changed_the_data() {
    let address = fresh_database().await;
    let options = Options { lease: Duration::from_secs(1), ..Options::default() };
    let engine = Engine::open_with(&address, options).await.unwrap();
    let step = Step::new("call", |_: Context<()>| async { Ok(()) });
    engine.register(Saga::builder("s").step(step).build().unwrap()).unwrap();
    let client = session(&address).await;
    let newer = async |is_breaking: bool| {
        let compared = if is_breaking { "new.schema_version < 99" } else { "false" };
        let sql = format!(
            "set search_path = backstitch;
             insert into schema_migrations (version, name) values (99, 'newer') on conflict do nothing;
             drop trigger nodes_refuse_older_version on nodes;
             create trigger nodes_refuse_older_version before insert or update on nodes
                 for each row when ({compared}) execute function refuse('upgrade this node')"
        );
        client.batch_execute(&sql).await.unwrap();
    };

    newer(false).await;
    let run = engine.start("s", &()).await.unwrap();
    assert!(tokio::time::timeout(SOON, run.outcome()).await.unwrap().unwrap().succeeded());
    engine.writable().await.unwrap();

    newer(true).await;
    let refused = async {
        loop {
            match engine.writable().await {
                Err(why) => break why.to_string(),
                Ok(()) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let refused = tokio::time::timeout(SOON, refused).await.unwrap();
    assert!(refused.contains("schema version 99") && refused.contains("run the newer program"), "{refused}");

    newer(false).await;
    let ready = async {
        while engine.writable().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, ready).await.unwrap();
    engine.shutdown().await.unwrap();
}
