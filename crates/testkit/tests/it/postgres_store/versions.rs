//! Nodes of several versions on one database.

use std::time::Duration;

use backstitch::store::nodes::Node;
use backstitch::store::postgres::{PostgresStore, migrate};
use backstitch::store::product::{Migration, Schema};
use backstitch::store::{Error, NodeStore as _, SchemaName};
use backstitch::{Announced, Context, Engine, Options, Saga, Step};
use backstitch_testkit::postgres::{empty_database, fresh_database};
use tokio_postgres::Client;

use crate::postgres_store::support::{SOON, session};
use crate::repository;

/// A database as the version before the newest breaking migration left it.
async fn older_database() -> (String, Client) {
    let address = empty_database().await;
    let client = session(&address).await;
    let record = "create schema backstitch;
        create table backstitch.product_migrations (
            version bigint not null, applied_at timestamptz not null default now(),
            product text not null, name text not null, primary key (product, version)
        );
        set search_path = backstitch";
    client.batch_execute(record).await.unwrap();
    let migrations = repository::files_under(&repository::root().join("crates/engine/migrations/postgres"));
    let older = migrations.iter().take_while(|path| !path.ends_with("0010_mixed_versions.sql"));
    for (version, path) in (1_i64..).zip(older) {
        client.batch_execute(&SchemaName::default().qualify(&repository::read(path))).await.unwrap();
        let done = "insert into product_migrations (product, version, name) values ('engine', $1, 'older')";
        client.execute(done, &[&version]).await.unwrap();
    }
    (address, client)
}

async fn version(client: &Client) -> i64 {
    client
        .query_one("select max(version) from product_migrations where product = 'engine'", &[])
        .await
        .unwrap()
        .get(0)
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

    // Suspended for so long that it counts as dead, and resumed later.
    client.batch_execute("update nodes set heartbeat_at = clock() - interval '2 h'").await.unwrap();
    PostgresStore::connect(&address).await.unwrap();
    assert!(version(&client).await > before);
    for statement in [join, "update nodes set heartbeat_at = clock()"] {
        let refused = client.batch_execute(statement).await.unwrap_err();
        let why = refused.as_db_error().unwrap().message();
        assert!(why.contains("upgrade this node"), "{statement}: {why}");
    }
}

/// Waits until a session waits for this lock of the table of nodes, or has it.
async fn until_locked(client: &Client, mode: &str, is_granted: bool) {
    let locks = "select from pg_locks
        where relation = 'backstitch.nodes'::regclass and mode = $1 and granted = $2";
    let locked = async {
        while client.query(locks, &[&mode, &is_granted]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, locked).await.unwrap_or_else(|_| panic!("no such lock: {mode} {is_granted}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn older_node_cannot_join_while_a_newer_version_migrates() {
    let (address, watcher) = older_database().await;
    // A reader of the table delays the migration after its check for older nodes.
    let reader = session(&address).await;
    reader.batch_execute("begin; select from backstitch.nodes").await.unwrap();
    let migrating = tokio::spawn({
        let address = address.clone();
        async move { PostgresStore::connect(&address).await.map(drop) }
    });
    until_locked(&watcher, "AccessExclusiveLock", false).await;
    let older = session(&address).await;
    let joining = tokio::spawn(async move {
        let join = "insert into backstitch.nodes (name, lease_ms) values ('old', 3600000)";
        older.batch_execute(join).await
    });
    let waits = async {
        until_locked(&watcher, "RowExclusiveLock", false).await;
        until_locked(&watcher, "ShareRowExclusiveLock", true).await;
    };
    tokio::select! {
        () = waits => {}
        () = async { while !joining.is_finished() { tokio::time::sleep(Duration::from_millis(10)).await } } =>
            panic!("an older node joined between the check and the migration"),
    }
    reader.batch_execute("rollback").await.unwrap();
    tokio::time::timeout(SOON, migrating).await.unwrap().unwrap().unwrap();
    let refused = tokio::time::timeout(SOON, joining).await.unwrap().unwrap().unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("upgrade this node"), "{refused}");
}

const PARCELS: Migration = Migration {
    name: "parcels",
    sqlite: "create table parcels (id integer)",
    postgres: "create table backstitch.parcels (id bigint)",
};
static OLDER: Schema = Schema { product: "parcels", breaking: &[], migrations: &[PARCELS] };
static NEWER: Schema = Schema {
    product: "parcels",
    breaking: &[2],
    migrations: &[
        PARCELS,
        Migration {
            name: "weights",
            sqlite: "alter table parcels add column weight integer",
            postgres: "alter table backstitch.parcels add column weight bigint",
        },
    ],
};

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), lease: Duration::from_secs(3600), announced: Announced::default() }
}

fn is_newer_schema<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::NewerSchema { found: 2, known: 1 }))
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_product_migration_shuts_older_nodes_out() {
    let address = fresh_database().await;
    let client = session(&address).await;
    client.batch_execute("set search_path = backstitch").await.unwrap();
    let older = PostgresStore::connect_with(&address, &[&OLDER]).await.unwrap();
    let old = older.join(&node("old")).await.unwrap();
    let without = PostgresStore::connect(&address).await.unwrap();
    let other = without.join(&node("other")).await.unwrap();
    let refused = PostgresStore::connect_with(&address, &[&NEWER]).await.err();
    assert!(matches!(&refused, Some(Error::OlderNodes(names)) if names == "old"), "{refused:?}");
    assert!(older.heartbeat(old).await.unwrap(), "it goes on with the tables that it knows");

    let age = "update nodes set heartbeat_at = clock() - interval '2 h' where name = 'old'";
    client.batch_execute(age).await.unwrap();
    let newer = PostgresStore::connect_with(&address, &[&NEWER]).await.unwrap();
    newer.join(&node("new")).await.unwrap();
    client.batch_execute("alter table nodes disable trigger user").await.unwrap();
    client.batch_execute("update nodes set heartbeat_at = clock()").await.unwrap();
    client.batch_execute("alter table nodes enable trigger user").await.unwrap();
    let (beat, joined) = (older.heartbeat(old).await, older.join(&node("old")).await);
    assert!(is_newer_schema(&beat) && is_newer_schema(&joined), "{beat:?} {joined:?}");
    assert!(without.heartbeat(other).await.unwrap(), "it has nothing to do with the product");
    let earlier = "insert into nodes (name, lease_ms, schema_version) values ('earlier', 1000, 99)";
    let refused = client.batch_execute(earlier).await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("the data of parcels"), "{refused}");
}

static BREAKING_FROM_THE_START: Schema =
    Schema { product: "parcels", breaking: &[1], migrations: &[PARCELS] };

#[tokio::test(flavor = "multi_thread")]
async fn new_product_that_breaks_shuts_no_node_out() {
    let fresh = empty_database().await;
    let store = PostgresStore::connect_with(&fresh, &[&BREAKING_FROM_THE_START]).await.unwrap();
    store.join(&node("first")).await.unwrap();

    let shared = fresh_database().await;
    let client = session(&shared).await;
    // Like nodes that do not announce their products when they join.
    let join =
        "insert into backstitch.nodes (name, lease_ms, schema_version) values ('earlier', 3600000, 99)";
    client.batch_execute(join).await.unwrap();
    PostgresStore::connect_with(&shared, &[&BREAKING_FROM_THE_START]).await.unwrap();
    client.batch_execute("update backstitch.nodes set heartbeat_at = backstitch.clock()").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_migration_needs_no_nodes_table() {
    let pool = backstitch::store::postgres::pool_at(&empty_database().await, 1).unwrap();
    let mut client = pool.get().await.unwrap();
    for schema in [&BREAKING_FROM_THE_START, &NEWER] {
        migrate(&mut client, &SchemaName::default(), schema).await.unwrap();
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
             insert into product_migrations (product, version, name)
                 values ('engine', 99, 'newer') on conflict do nothing;
             drop trigger if exists nodes_refuse_older_version on nodes;
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
