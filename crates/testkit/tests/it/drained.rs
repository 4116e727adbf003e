//! An engine returns its resources: after the drain the numbers of descriptors and connections are as before.

use std::path::Path;
use std::time::{Duration, Instant};

use backstitch::{Context, Cursor, Engine, Filter, STUCK_AFTER, Saga, Step};
use backstitch_testkit::postgres::fresh_database;
use futures::future::join_all;
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

/// Longer than anything here takes.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;
/// More than an engine has connections of any kind.
const AT_ONCE: usize = 200;

/// The descriptors or connections of a running engine.
const FEW: usize = 20;

/// Runs as many concurrent writes and reads as possible; some callers are dropped.
async fn crowd(engine: &Engine) {
    let step = Step::new("a", |_: Context<Value>| async { Ok(()) });
    engine.register(Saga::builder("s").step(step).build().unwrap()).unwrap();
    let page = Cursor { before: None, limit: 10 };
    let visits = (0..AT_ONCE).map(|number| {
        let (engine, page) = (engine.clone(), page.clone());
        tokio::spawn(async move {
            let run = engine.start("s", &number).await.unwrap();
            engine.list(&Filter::default(), &page).await.unwrap();
            assert!(run.outcome().await.unwrap().succeeded());
            engine.health(STUCK_AFTER).await.unwrap();
        })
    });
    let visits: Vec<_> = visits.collect();
    let passers_by = (0..AT_ONCE).map(|_| {
        let (engine, page) = (engine.clone(), page.clone());
        tokio::spawn(async move {
            let all = Filter::default();
            // Polled, and then dropped.
            let _ = tokio::time::timeout(Duration::ZERO, engine.list(&all, &page)).await;
        })
    });
    for done in join_all(visits.into_iter().chain(passers_by)).await {
        done.unwrap();
    }
}

/// Waits until there are no more than this.
async fn until_at_most(most: usize, count: impl AsyncFn() -> usize) {
    let begun = Instant::now();
    while count().await > most {
        assert!(begun.elapsed() < PATIENCE, "there are {} still, not {most}", count().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// This process's descriptors in this directory.
fn descriptors(folder: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|it| std::fs::read_link(it.as_ref().unwrap().path()).is_ok_and(|to| to.starts_with(folder)))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_left_by_every_descriptor_and_never_has_many() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let engine = Engine::open(&format!("sqlite:{}", place.join("sagas.db").display())).await.unwrap();
    crowd(&engine).await;
    assert!(descriptors(&place) > 0);
    until_at_most(FEW, async || descriptors(&place)).await;
    engine.shutdown().await.unwrap();
    until_at_most(0, async || descriptors(&place)).await;
}

/// The store's connections to this database, counted by the server.
async fn connections(watcher: &Client) -> usize {
    let theirs = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'backstitch'";
    usize::try_from(watcher.query_one(theirs, &[]).await.unwrap().get::<_, i64>(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_left_by_every_connection_and_never_has_many() {
    let address = fresh_database().await;
    let (watcher, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    let engine = Engine::open(&address).await.unwrap();
    crowd(&engine).await;
    assert!(connections(&watcher).await > 0);
    until_at_most(FEW, async || connections(&watcher).await).await;
    engine.shutdown().await.unwrap();
    until_at_most(0, async || connections(&watcher).await).await;
}
