//! The network swallows what is sent, or the server was restarted: questions end all the same.

use std::time::{Duration, Instant};

use backstitch::store::nodes::Node;
use backstitch::store::postgres::PostgresStore;
use backstitch::store::{Cursor, Error, Filter, Store as _};
use backstitch::{Context, Engine, Options, Saga, Step};
use backstitch_testkit::postgres::{ThrowawayPostgres, fresh_database};

use crate::network::{FALL_SILENT, Network, SWALLOW_REQUEST};
use crate::support::{SOON, new_id, now, start};

/// Long enough for any answer of a server that answers, and far below the usual limit.
const LIMIT: Duration = Duration::from_secs(2);

async fn store_behind_a_network() -> (PostgresStore, Network) {
    let network = Network::to(&fresh_database().await).await;
    let store = PostgresStore::connect(&network.address).await.unwrap().answering_within(LIMIT);
    (store, network)
}

fn no_answer<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Unavailable(why)) if why.contains("no answer"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_is_given_up_with_its_connection() {
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
async fn a_heartbeat_is_given_up_in_time_for_the_next() {
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

/// A third of this lease is below the limit of other questions, and the whole is long enough for a slow machine.
fn node() -> Node {
    Node { name: "slow".to_owned(), lease: Duration::from_secs(5) }
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
    // A change may have happened: whoever asked for it has to decide.
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
        // Several connections, all of them idle when the server goes.
        let (one, other) = tokio::join!(store.list(&filter, &page), store.next_outgoing());
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
async fn a_server_that_stands_still_holds_up_no_shutdown() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let options = Options { lease: Duration::from_secs(1), grace: Duration::ZERO, ..Options::default() };
    let engine = Engine::open_with(&address, options.clone()).await.unwrap();
    engine.register(saga(false)).unwrap();
    let acknowledged = engine.start("s", &()).await.unwrap().id();
    postgres.suspend().unwrap();
    // Every question on its own would be waited for longer than this.
    let stopped = tokio::time::timeout(Duration::from_secs(35), engine.shutdown()).await;
    postgres.resume().unwrap();
    assert!(stopped.expect("the shutdown ends").is_err(), "nobody took its leave");

    let engine = Engine::open_with(&address, options).await.unwrap();
    engine.register(saga(true)).unwrap();
    let run = engine.find(acknowledged).await.unwrap();
    assert!(tokio::time::timeout(SOON, run.outcome()).await.unwrap().unwrap().succeeded());
    engine.shutdown().await.unwrap();
}
