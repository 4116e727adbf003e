//! Tables are changed under nodes that use them.

use std::time::Duration;

use backstitch::store::postgres::PostgresStore;
use backstitch_modules::webhooks;
use backstitch_testkit::postgres;

use crate::webhooks::stage::session;

#[tokio::test(flavor = "multi_thread")]
async fn waiting_migration_lets_others_use_the_table() {
    let address = postgres::empty_database().await;
    drop(PostgresStore::connect_with(&address, &[]).await.unwrap());
    let (writer, other) = (session(&address).await, session(&address).await);
    writer.batch_execute("begin; update jobs set token = 0 where false").await.unwrap();
    let changing =
        tokio::spawn(
            async move { PostgresStore::connect_with(&address, &[&webhooks::SCHEMA]).await.map(drop) },
        );
    let waits = "select count(*) from pg_locks where not granted and relation = 'jobs'::regclass";
    while other.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!changing.is_finished(), "it has to wait for the writer");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.batch_execute("set lock_timeout = '20s'; update jobs set token = 0 where false").await.unwrap();
    assert!(!changing.is_finished(), "the writer is still there");
    writer.batch_execute("rollback").await.unwrap();
    changing.await.unwrap().unwrap();
}
