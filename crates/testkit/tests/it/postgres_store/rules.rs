//! Rules that the database enforces for every program.

use backstitch::store::SagaStore as _;
use tokio_postgres::error::SqlState;

use crate::postgres_store::support::{end, fresh_store, new_id, session, start};

#[tokio::test(flavor = "multi_thread")]
async fn history_cannot_be_changed() {
    let (store, address) = fresh_store().await;
    let (live, over) = (new_id(), new_id());
    store.commit(&[start(live), start(over)]).await.unwrap();
    store.commit(&[end(over, 3, Some(0))]).await.unwrap();
    let session = session(&address).await;
    for forbidden in [
        "update backstitch.saga_events set data = '{}'",
        "truncate backstitch.saga_events",
        "delete from backstitch.saga_events",
        "delete from backstitch.sagas where status = 'running'",
        "update backstitch.sagas set status = 'compensating' where status = 'succeeded'",
        "update backstitch.sagas set paused = true where status = 'succeeded'",
        "update backstitch.sagas set definition = 'other' where status = 'running'",
        "update backstitch.sagas set status = 'done' where status = 'running'",
        "insert into backstitch.saga_events (at, saga_id, seq, type) select now(), gen_random_uuid(), 0, ''",
    ] {
        let refused = session.batch_execute(forbidden).await.err();
        let code = refused.as_ref().and_then(tokio_postgres::Error::code);
        assert!(
            matches!(code, Some(&SqlState::RESTRICT_VIOLATION | &SqlState::CHECK_VIOLATION)),
            "{forbidden}: {refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_rollback_resumes_and_nothing_else_changes() {
    let (store, address) = fresh_store().await;
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    let session = session(&address).await;
    session.batch_execute("update backstitch.sagas set status = 'failed'").await.unwrap();
    session.batch_execute("update backstitch.sagas set paused = true").await.unwrap_err();
    session.batch_execute("update backstitch.sagas set status = 'succeeded'").await.unwrap_err();
    session.batch_execute("update backstitch.sagas set status = 'compensating'").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saga_at_its_end_can_go_row_first() {
    let (store, address) = fresh_store().await;
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    store.commit(&[end(saga, 3, Some(0))]).await.unwrap();
    let mut session = session(&address).await;
    let retention = session.transaction().await.unwrap();
    retention.execute("delete from backstitch.sagas where id = $1", &[&saga.0]).await.unwrap();
    retention.execute("delete from backstitch.saga_events where saga_id = $1", &[&saga.0]).await.unwrap();
    retention.commit().await.unwrap();
    assert!(store.load(&[saga]).await.unwrap().is_empty());
}
