//! Many unfinished sagas in a file are adopted soon after a restart.

use std::time::{Duration, Instant};

use backstitch::{Engine, Options};
use backstitch_testkit::chaos::{backlog, load};
use backstitch_testkit::scale;
use rusqlite::{Connection, OpenFlags};

#[tokio::test(flavor = "multi_thread")]
async fn restart_adopts_every_unfinished_saga() {
    let sagas = scale::recovery_sagas();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sagas.db");
    let address = format!("sqlite:{}", path.display());
    let store = load::store(&address).await.unwrap();
    let gone = backlog::leave_behind(&*store, sagas, Duration::from_secs(10)).await.unwrap();
    drop(store);

    let began = Instant::now();
    let engine = Engine::open_with(&address, Options::default()).await.unwrap();
    engine.register(backlog::saga().unwrap()).unwrap();
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut left = reader.prepare("select count(*) from sagas where owner = ?1").unwrap();
    backlog::all_adopted(async || left.query_row([gone], |row| row.get(0)).unwrap()).await.unwrap();
    let taken_over = began.elapsed();
    let adopted = "select count(distinct saga_id) from saga_events where type = 'saga.adopted'";
    let adopted: i64 = reader.query_row(adopted, [], |row| row.get(0)).unwrap();
    println!("{sagas} unfinished sagas were taken over in {taken_over:?}");
    assert_eq!(usize::try_from(adopted).unwrap(), sagas, "each has an event of its new owner");
    backlog::assert_in_time(taken_over);
    drop(left);
    engine.shutdown().await.unwrap();
}
