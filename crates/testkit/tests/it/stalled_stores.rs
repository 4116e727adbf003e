//! Parallel steps while their saga's store stalls: a locked `SQLite` file, a suspended `PostgreSQL` server.

use std::sync::Arc;
use std::time::Duration;

use backstitch::{Context, Engine, Options, Retry, Saga, Step};
use backstitch_testkit::postgres::ThrowawayPostgres;
use rusqlite::Connection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Long enough for anything here on a busy machine.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;
/// What a service sends one by one; it waits for each to be acknowledged.
const PIECES: [u8; 4] = *b"done";

/// Two steps side by side: one ends when it is told to, the other reads a response that comes in pieces.
fn saga(quick_ends: &Arc<Notify>, service: String) -> Saga {
    let quick_ends = quick_ends.clone();
    let quick = Step::new("quick", move |_: Context<()>| {
        let ends = quick_ends.clone();
        async move {
            ends.notified().await;
            Ok(())
        }
    });
    let pieces = Step::new("pieces", move |_: Context<()>| {
        let service = service.clone();
        async move {
            let mut connection = TcpStream::connect(service).await?;
            let mut response = Vec::new();
            while response.len() < PIECES.len() {
                response.push(connection.read_u8().await?);
                connection.write_all(b".").await?;
            }
            Ok(response)
        }
    });
    let steps = Saga::builder("s").step(quick.timeout(PATIENCE));
    let pieces = pieces.timeout(PATIENCE).retry(Retry::none()).depends_on::<&str>([]);
    steps.step(pieces).build().unwrap()
}

/// Runs the saga. The store stalls before the first step ends, and goes on once the second has read its response.
async fn pieces_are_read_while(engine: Engine, stall: impl FnOnce(), go_on: impl FnOnce()) {
    let quick_ends = Arc::new(Notify::new());
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = service.local_addr().unwrap().to_string();
    engine.register(saga(&quick_ends, address)).unwrap();
    let run = engine.start("s", &()).await.unwrap();
    let (mut connection, _) = tokio::time::timeout(PATIENCE, service.accept()).await.unwrap().unwrap();
    stall();
    quick_ends.notify_one();
    // The saga now commits what became of the first step, until the store goes on.
    let sent = tokio::time::timeout(PATIENCE / 2, async {
        for piece in PIECES {
            connection.write_all(&[piece]).await.unwrap();
            connection.read_u8().await.unwrap();
        }
    });
    let sent = sent.await;
    go_on();
    assert!(sent.is_ok(), "the second step does not read on while its saga commits");
    let ended = tokio::time::timeout(PATIENCE, run.outcome()).await.unwrap().unwrap();
    assert!(ended.succeeded(), "{:?}", ended.error);
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_read_on_while_the_sqlite_file_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sagas.db");
    let engine = Engine::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let beside = Connection::open(&path).unwrap();
    let run = |sql| beside.execute_batch(sql).unwrap();
    pieces_are_read_while(engine, || run("begin immediate"), || run("rollback")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_read_on_while_postgres_is_suspended() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let address = postgres.create_database().await.unwrap();
    let options = Options { lease: PATIENCE, ..Options::default() };
    let engine = Engine::open_with(&address, options).await.unwrap();
    pieces_are_read_while(engine, || postgres.suspend().unwrap(), || postgres.resume().unwrap()).await;
}
