//! Tables are changed under nodes that use them.

use std::time::Duration;

use backstitch::store::postgres::PostgresStore;
use backstitch_modules::webhooks;
use backstitch_testkit::postgres;

use crate::webhooks::stage::session;

#[tokio::test(flavor = "multi_thread")]
async fn while_a_change_waits_for_a_long_reader_others_use_the_table() {
    let address = postgres::empty_database().await;
    drop(PostgresStore::connect_with(&address, &[]).await.unwrap());
    let (reader, other) = (session(&address).await, session(&address).await);
    reader.batch_execute("begin; select count(*) from jobs").await.unwrap();
    let changing =
        tokio::spawn(
            async move { PostgresStore::connect_with(&address, &[&webhooks::SCHEMA]).await.map(drop) },
        );
    let waits = "select count(*) from pg_locks where not granted and relation = 'jobs'::regclass";
    while other.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!changing.is_finished(), "it has to wait for the reader");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.batch_execute("set lock_timeout = '20s'; update jobs set token = 0 where false").await.unwrap();
    assert!(!changing.is_finished(), "the reader is still there");
    reader.batch_execute("rollback").await.unwrap();
    changing.await.unwrap().unwrap();
}
