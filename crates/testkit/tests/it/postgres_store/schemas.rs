//! Engines in schemas of their own on one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstitch::store::InboxStore as _;
use backstitch::store::nodes::Notice;
use backstitch::store::postgres::PostgresStore;
use backstitch::{Context, Cursor, Engine, Filter, Options, Saga, SagaId, SchemaName, Step};
use backstitch_testkit::postgres::empty_database;
use tokio::time::timeout;

use crate::postgres_store::support::{SOON, session};

/// An engine in a schema, with a saga that counts its runs.
async fn engine_in(address: &str, schema: &SchemaName) -> (Engine, Arc<AtomicUsize>) {
    let options = Options { schema: schema.clone(), ..Options::default() };
    let engine = Engine::open_with(address, options).await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let step = Step::new("go", move |_: Context<u32>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    engine.register(Saga::builder("trip").step(step).build().unwrap()).unwrap();
    (engine, runs)
}

fn schemas() -> [SchemaName; 2] {
    ["backstitch", "tenant_b"].map(|name| name.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_in_two_schemas_share_a_database_undisturbed() {
    let address = empty_database().await;
    let [first, second] = schemas();
    let (ours, our_runs) = engine_in(&address, &first).await;
    let (theirs, their_runs) = engine_in(&address, &second).await;

    // The same saga under the same key is another one in each.
    let started = ours.start("trip", &1_u32).key("k").await.unwrap();
    started.outcome().await.unwrap();
    let also = theirs.start("trip", &2_u32).key("k").await.unwrap();
    also.outcome().await.unwrap();
    assert_eq!((our_runs.load(Ordering::Relaxed), their_runs.load(Ordering::Relaxed)), (1, 1));

    // In a transaction of a caller whose search path leads to neither.
    let mut client = session(&address).await;
    client.batch_execute("set search_path = pg_catalog").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let asked = theirs.start("trip", &3_u32).in_postgres(&transaction).await.unwrap();
    theirs.publish("orders", "m", &1).in_postgres(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    theirs.look_for_work();
    theirs.find(asked).await.unwrap().outcome().await.unwrap();

    let cursor = Cursor { before: None, limit: 10 };
    let of_ours = ours.list(&Filter::default(), &cursor).await.unwrap().items;
    let of_theirs = theirs.list(&Filter::default(), &cursor).await.unwrap().items;
    assert_eq!((of_ours.len(), of_theirs.len()), (1, 2));
    assert!(of_ours.iter().all(|saga| of_theirs.iter().all(|other| other.id != saga.id)));
    let nodes = "select (select count(*) from backstitch.nodes), (select count(*) from tenant_b.nodes)";
    let nodes = client.query_one(nodes, &[]).await.unwrap();
    assert_eq!((nodes.get::<_, i64>(0), nodes.get::<_, i64>(1)), (1, 1));

    // One can go without the other.
    theirs.shutdown().await.unwrap();
    client.batch_execute("drop schema tenant_b cascade").await.unwrap();
    ours.start("trip", &4_u32).await.unwrap().outcome().await.unwrap();
    assert_eq!(our_runs.load(Ordering::Relaxed), 2);
    ours.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_stay_within_their_schema() {
    let address = empty_database().await;
    let [first, second] = schemas();
    let (ours, _) = engine_in(&address, &first).await;
    let (theirs, _) = engine_in(&address, &second).await;
    // Each has stored the definition that the function starts.
    ours.start("trip", &1_u32).await.unwrap().outcome().await.unwrap();
    theirs.start("trip", &1_u32).await.unwrap().outcome().await.unwrap();
    let listener = PostgresStore::connect_in(&address, &first, &[]).await.unwrap();
    let mut notices = listener.listen().await.unwrap().unwrap();
    let mut next = async || timeout(SOON, notices.recv()).await.unwrap().unwrap();
    assert_eq!(next().await, Notice::Missed);
    let client = session(&address).await;
    client.query_one("select tenant_b.start('trip', '1', notify => true)", &[]).await.unwrap();
    let loud = client.query_one("select backstitch.start('trip', '1', notify => true)", &[]).await.unwrap();
    let saga = SagaId(loud.get(0));
    assert_eq!(next().await, Notice::Started(saga), "the other schema has channels of its own");
}
