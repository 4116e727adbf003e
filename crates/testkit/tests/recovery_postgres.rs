//! Very many unfinished sagas in PostgreSQL: each is somebody's again soon after its owner is gone.

use std::time::{Duration, Instant};

use backstitch::{Engine, Options};
use backstitch_testkit::chaos::{backlog, load, setting};
use backstitch_testkit::postgres::fresh_database;
use tokio_postgres::NoTls;

/// The figure that is promised is for 100,000; `./soak` runs that many.
const SAGAS: usize = 20_000;
const PROMISED: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn after_a_death_every_unfinished_saga_has_an_event_of_its_new_owner_within_30_seconds() {
    let sagas = setting("BACKSTITCH_RECOVERY_SAGAS", SAGAS);
    let address = fresh_database().await;
    let lease = Options::default().lease;
    let store = load::store(&address).await.unwrap();
    let gone = backlog::leave_behind(&*store, sagas, lease).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    // The owner was heard of a moment ago: its whole lease is still to be waited for.
    let beat = "update backstitch.nodes set heartbeat_at = now() where epoch = $1";
    assert_eq!(client.execute(beat, &[&gone]).await.unwrap(), 1, "the owner was struck off too soon");

    let began = Instant::now();
    let engine = Engine::open_with(&address, Options::default()).await.unwrap();
    engine.register(backlog::saga().unwrap()).unwrap();
    let left = client.prepare("select count(*) from backstitch.sagas where owner = $1").await.unwrap();
    loop {
        let left: i64 = client.query_one(&left, &[&gone]).await.unwrap().get(0);
        if left == 0 {
            break;
        }
        assert!(began.elapsed() < PROMISED, "{left} of {sagas} sagas still belong to a process that is gone");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let taken_over = began.elapsed();
    let adopted = "select count(distinct saga_id) from backstitch.saga_events where type = 'saga.adopted'";
    let adopted: i64 = client.query_one(adopted, &[]).await.unwrap().get(0);
    println!("{sagas} unfinished sagas were taken over in {taken_over:?}, a lease of {lease:?} included");
    assert_eq!(usize::try_from(adopted).unwrap(), sagas, "each has an event of its new owner");
    assert!(taken_over > lease / 2, "somebody was robbed while still alive");
    engine.shutdown().await.unwrap();
}
