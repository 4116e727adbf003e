//! Very many unfinished sagas in a file: after a restart each is somebody's again, soon.

use std::time::{Duration, Instant};

use backstitch::{Engine, Options};
use backstitch_testkit::chaos::{backlog, load, setting};
use rusqlite::{Connection, OpenFlags};

/// The figure that is promised is for 100,000; `./soak` runs that many.
const SAGAS: usize = 20_000;
const PROMISED: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_every_unfinished_saga_has_an_event_of_its_new_owner_within_30_seconds() {
    let sagas = setting("BACKSTITCH_RECOVERY_SAGAS", SAGAS);
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
    loop {
        let left: i64 = left.query_row([gone], |row| row.get(0)).unwrap();
        if left == 0 {
            break;
        }
        assert!(began.elapsed() < PROMISED, "{left} of {sagas} sagas still belong to a process that is gone");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let taken_over = began.elapsed();
    let adopted = "select count(distinct saga_id) from saga_events where type = 'saga.adopted'";
    let adopted: i64 = reader.query_row(adopted, [], |row| row.get(0)).unwrap();
    println!("{sagas} unfinished sagas were taken over in {taken_over:?}");
    assert_eq!(usize::try_from(adopted).unwrap(), sagas, "each has an event of its new owner");
    drop(left);
    engine.shutdown().await.unwrap();
}
