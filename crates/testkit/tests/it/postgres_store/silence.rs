//! The network drops everything, or the server was restarted: queries still end.

use std::time::{Duration, Instant};

use backstitch::inbox::{Message, Posted};
use backstitch::store::nodes::Node;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::product::{ProductRow, RowKind};
use backstitch::store::{
    Commit, Cursor, Error, Filter, InboxStore as _, NodeStore as _, OutboxStore as _, OwnershipStore as _,
    SagaStore as _, Verdict,
};
use backstitch::{Announced, Context, Engine, Options, Payload, Saga, Step};
use backstitch_testkit::postgres::{ThrowawayPostgres, fresh_database};

use crate::postgres_store::network::{FALL_SILENT, Network, STAND_STILL_BEFORE_COMMIT, SWALLOW_REQUEST};
use crate::postgres_store::support::{SOON, end, fresh_store, go_on, new_id, now, session, start, until};

/// Long enough for a healthy server on a busy machine, and below the usual limit.
const LIMIT: Duration = Duration::from_secs(5);

async fn store_behind_a_network() -> (PostgresStore, Network) {
    let network = Network::to(&fresh_database().await).await;
    let store = PostgresStore::connect(&network.address).await.unwrap().answering_within(LIMIT);
    (store, network)
}

fn no_answer<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Unavailable(why)) if why.contains("no answer"))
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_query_times_out_with_its_connection() {
    let (store, network) = store_behind_a_network().await;
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    network.break_once(FALL_SILENT);
    assert!(no_answer(&store.load(&[saga]).await));
    assert_eq!(network.broken(), 1, "the fault did not strike");
    assert_eq!(store.load(&[saga]).await.unwrap().len(), 1, "on a connection of its own");

    network.break_once(FALL_SILENT);
    assert!(no_answer(&store.adopt(&node(), 1, &[], now(), 10).await));
    assert_eq!(network.broken(), 2, "the fault did not strike");
    store.adopt(&node(), 1, &[], now(), 10).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_times_out_before_the_next() {
    let (store, network) = store_behind_a_network().await;
    let epoch = store.join(&node()).await.unwrap();
    assert!(store.heartbeat(epoch).await.unwrap());
    network.break_once(FALL_SILENT);
    let began = Instant::now();
    assert!(no_answer(&store.heartbeat(epoch).await));
    assert_eq!(network.broken(), 1, "the fault did not strike");
    assert!(began.elapsed() < node().lease, "the lease was over before the heartbeat was given up");
    assert!(store.heartbeat(epoch).await.unwrap(), "on a connection of its own");
}

/// A third of this lease is below the limit of other requests, and the rest is long enough for a busy machine.
fn node() -> Node {
    Node { name: "slow".to_owned(), lease: Duration::from_secs(12), announced: Announced::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_does_not_hear_of_a_connection_that_is_gone() {
    let (store, network) = store_behind_a_network().await;
    let page = Cursor { before: None, limit: 10 };
    for struck in 1..=3 {
        network.break_once(SWALLOW_REQUEST);
        store.list(&Filter::default(), &page).await.unwrap();
        assert_eq!(network.broken(), struck, "the fault did not strike");
    }
    // The change may have happened, so the caller has to decide.
    network.break_once(SWALLOW_REQUEST);
    let adopted = store.adopt(&node(), 1, &[], now(), 10).await;
    assert!(matches!(adopted, Err(Error::Unavailable(_))), "{adopted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_asked_as_if_nothing_had_been() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let store = PostgresStore::connect(&address).await.unwrap();
    let page = Cursor { before: None, limit: 10 };
    let filter = Filter::default();
    for _ in 0..3 {
        // Several connections, all idle when the server stops.
        let (one, other) = tokio::join!(store.list(&filter, &page), store.outbox_ages());
        one.unwrap();
        other.unwrap();
        postgres.stop_immediate().unwrap();
        postgres.start_again().unwrap();
        let listed = tokio::time::timeout(SOON, store.list(&filter, &page)).await.unwrap();
        listed.unwrap();
    }
}

/// A saga of one step that ends, or never does.
fn saga(ends: bool) -> Saga {
    let step = Step::new("a", move |_: Context<()>| async move {
        if ends { Ok(()) } else { std::future::pending().await }
    });
    Saga::builder("s").step(step).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_database_does_not_delay_shutdown() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let options = Options { lease: Duration::from_secs(1), grace: Duration::ZERO, ..Options::default() };
    let engine = Engine::open_with(&address, options.clone()).await.unwrap();
    engine.register(saga(false)).unwrap();
    let acknowledged = engine.start("s", &()).await.unwrap().id();
    postgres.suspend().unwrap();
    // Each query alone would be waited for longer than this.
    let stopped = tokio::time::timeout(Duration::from_secs(35), engine.shutdown()).await;
    postgres.resume().unwrap();
    assert!(stopped.expect("the shutdown ends").is_err(), "nobody took its leave");

    let engine = Engine::open_with(&address, options).await.unwrap();
    engine.register(saga(true)).unwrap();
    let run = engine.find(acknowledged).await.unwrap();
    assert!(tokio::time::timeout(SOON, run.outcome()).await.unwrap().unwrap().succeeded());
    engine.shutdown().await.unwrap();
}

/// Rows of a product need a statement of their own, so a batch with some is a transaction of several statements.
static ROW: RowKind = RowKind {
    sqlite: "",
    postgres: "select from unnest($1::uuid[], $2::timestamptz[], $3::text[]) as r (saga_id, at, body)",
};

#[tokio::test(flavor = "multi_thread")]
async fn node_suspended_before_commit_delays_others_briefly() {
    let (store, address) = fresh_store().await;
    let network = Network::to(&address).await;
    let stopped = PostgresStore::connect(&network.address).await.unwrap();
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    network.break_once(STAND_STILL_BEFORE_COMMIT);
    let rows = vec![ProductRow { kind: &ROW, body: Payload::null() }];
    let held = Commit { rows, ..end(saga, 3, Some(0)) };
    let standing = tokio::spawn(async move { stopped.commit(&[held]).await });
    until(async || (network.broken() == 1).then_some(())).await;
    let watcher = session(&address).await;
    let open = "select from pg_stat_activity
        where datname = current_database() and application_name = 'backstitch' and state = 'idle in transaction'";
    until(async || watcher.query_opt(open, &[]).await.unwrap()).await;
    let (message, decision) = (Message::Cancel { note: String::new() }, [go_on(saga, 3, 2)]);
    let both = async { tokio::join!(store.post(saga, &message, now()), store.commit(&decision)) };
    let both = tokio::time::timeout(SOON, both).await;
    let (row, event) = both.expect("neither the saga's row nor its log waits for longer");
    assert_eq!((row.unwrap(), event.unwrap()), (Posted::Accepted, vec![Verdict::Applied]));
    assert_eq!(
        watcher.query_opt(open, &[]).await.unwrap().map(|_| ()),
        None,
        "the server has ended that session"
    );
    standing.abort();
}
