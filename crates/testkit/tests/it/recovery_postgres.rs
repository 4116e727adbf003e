//! Many unfinished sagas in PostgreSQL are adopted soon after their owner is gone.

use std::time::Instant;

use backstitch::{Engine, Options};
use backstitch_testkit::chaos::{backlog, load};
use backstitch_testkit::postgres::fresh_database;
use backstitch_testkit::scale;
use tokio_postgres::NoTls;

#[tokio::test(flavor = "multi_thread")]
async fn survivor_adopts_every_unfinished_saga() {
    let sagas = scale::recovery_sagas();
    let address = fresh_database().await;
    let lease = Options::default().lease;
    let store = load::store(&address).await.unwrap();
    let gone = backlog::leave_behind(&*store, sagas, lease).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    // The owner has just sent a heartbeat, so its whole lease must pass.
    let beat = "update backstitch.nodes set heartbeat_at = now() where epoch = $1";
    assert_eq!(client.execute(beat, &[&gone]).await.unwrap(), 1, "the owner was struck off too soon");

    let began = Instant::now();
    let engine = Engine::open_with(&address, Options::default()).await.unwrap();
    engine.register(backlog::saga().unwrap()).unwrap();
    let left = client.prepare("select count(*) from backstitch.sagas where owner = $1").await.unwrap();
    backlog::all_adopted(async || client.query_one(&left, &[&gone]).await.unwrap().get(0)).await.unwrap();
    let taken_over = began.elapsed();
    let adopted = "select count(distinct saga_id) from backstitch.saga_events where type = 'saga.adopted'";
    let adopted: i64 = client.query_one(adopted, &[]).await.unwrap().get(0);
    println!("{sagas} unfinished sagas were taken over in {taken_over:?}, a lease of {lease:?} included");
    assert_eq!(usize::try_from(adopted).unwrap(), sagas, "each has an event of its new owner");
    backlog::assert_in_time(taken_over);
    assert!(taken_over > lease / 2, "somebody was robbed while still alive");
    engine.shutdown().await.unwrap();
}
