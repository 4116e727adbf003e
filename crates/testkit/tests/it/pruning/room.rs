//! The file shrinks, and on PostgreSQL the space is reused.

use std::path::Path;

use backstitch::retention::Retention;
use backstitch::store::postgres::pool_at;
use futures::future::join_all;
use serde_json::json;

use crate::pruning::stage::{Place, all, eventually, soon};

fn size(folder: &Path) -> u64 {
    let connection = rusqlite::Connection::open(folder.join("sagas.db")).unwrap();
    // The file is truncated by the next checkpoint.
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    std::fs::metadata(folder.join("sagas.db")).unwrap().len()
}

async fn fill(place: &Place) {
    let engine = place.open(Retention::default()).await;
    let runs = (0..400).map(|_| {
        let engine = engine.clone();
        let input = json!({"note": "x".repeat(8_000)});
        async move { engine.start("purchase", &input).await.unwrap().outcome().await.unwrap() }
    });
    join_all(runs).await;
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn file_shrinks_after_deletion() {
    let place = Place::sqlite();
    let Place::Sqlite(folder) = &place else { return };
    fill(&place).await;
    let full = size(folder.path());
    assert!(full > 3_000_000, "{full}");

    let engine = place.open(soon()).await;
    eventually("all have gone", async || all(&engine).await.is_empty()).await;
    eventually("the room is given back", async || {
        let report = engine.removed();
        report.last_run.is_some() && report.pages_given_back * 4096 > full / 2
    })
    .await;
    // A checkpoint that meets a reader does not truncate the file.
    eventually("the file is smaller", async || size(folder.path()) < full / 2).await;
    engine.shutdown().await.unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
    let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// A file without that mode keeps its size: free space is reused.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_shrink_stays_as_large_and_works() {
    let place = Place::sqlite();
    let Place::Sqlite(folder) = &place else { return };
    let connection = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
    connection.execute_batch("pragma auto_vacuum = none; create table somebodys (id integer)").unwrap();
    drop(connection);
    fill(&place).await;
    let full = size(folder.path());
    let engine = place.open(soon()).await;
    eventually("all have gone", async || all(&engine).await.is_empty()).await;
    eventually("a round is over", async || engine.removed().last_run.is_some()).await;
    assert_eq!(engine.removed().pages_given_back, 0);
    assert_eq!(size(folder.path()), full);
    engine.shutdown().await.unwrap();

    // As docs/retention.md says.
    let connection = rusqlite::Connection::open(folder.path().join("sagas.db")).unwrap();
    connection.execute_batch("pragma auto_vacuum = incremental; vacuum").unwrap();
    drop(connection);
    assert!(size(folder.path()) < full / 2);
    let kind: i64 = rusqlite::Connection::open(folder.path().join("sagas.db"))
        .unwrap()
        .query_row("pragma auto_vacuum", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kind, 2);
}

/// Autovacuum would do this by itself after a twentieth of a table is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_reuses_the_space_of_deleted_rows() {
    let place = Place::postgres().await;
    let client = pool_at(&place.address(), 1).unwrap().get().await.unwrap();
    let size = async || -> i64 {
        let sql = "select pg_relation_size('saga_events')";
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    let mut sizes = Vec::new();
    for _ in 0..4 {
        fill(&place).await;
        sizes.push(size().await);
        let engine = place.open(soon()).await;
        eventually("all have gone", async || all(&engine).await.is_empty()).await;
        engine.shutdown().await.unwrap();
        // A remaining reader, such as the server's statistics collector, prevents cleanup of what it may see.
        let looking = "select count(*) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null";
        eventually("nobody looks", async || {
            client.query_one(looking, &[]).await.unwrap().get::<_, i64>(0) == 0
        })
        .await;
        for table in ["sagas", "saga_events", "outbox"] {
            client.batch_execute(&format!("vacuum {table}")).await.unwrap();
        }
    }
    // Four fillings without reuse would make four times the first size. PostgreSQL extends files in blocks when several
    // connections wait, so a table may grow at a filling.
    assert!(sizes[3] < 2 * sizes[0], "{sizes:?}");
    let lazy = "select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where nspname = 'backstitch' and relname in ('sagas', 'saga_events', 'saga_attributes', 'outbox', 'jobs')
            and not coalesce(reloptions::text, '') like '%autovacuum_vacuum_scale_factor=0.05%'";
    let lazy = client.query(lazy, &[]).await.unwrap();
    assert!(lazy.is_empty(), "{} tables wait until a fifth of them is gone", lazy.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_releases_the_retention_turn() {
    let place = Place::postgres().await;
    let engine = place.open(soon()).await;
    eventually("it has pruned", async || engine.removed().last_run.is_some()).await;
    let held = "select count(*) from backstitch.turns where until > backstitch.clock()";
    assert_eq!(place.number(held).await, 1);
    engine.shutdown().await.unwrap();
    assert_eq!(place.number(held).await, 0, "the next process would have to wait");
}
