//! Rules that the database enforces for every program.

use std::sync::Arc;

use backstitch::store::{Commit, Store};
use backstitch_kernel::saga::Status;

use super::SqlFixture;
use super::make::{apply, claim, ended, loaded, saga, seqs, started, updated};

async fn refused(fixture: &dyn SqlFixture, statement: &str) {
    let answer = fixture.execute(statement).await;
    assert!(answer.is_err(), "`{statement}` went through: {answer:?}");
}

async fn allowed(fixture: &dyn SqlFixture, statement: &str) {
    let answer = fixture.execute(statement).await;
    assert!(answer.is_ok_and(|changed| changed > 0), "`{statement}` was refused, or did nothing");
}

/// A saga in this status, alone in the store.
async fn one(fixture: &dyn SqlFixture, status: Status) -> Arc<dyn Store> {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    apply(&*store, updated(saga(1), 2, now, |row| row.status = status)).await;
    store
}

/// A written event never changes.
pub async fn events_are_never_changed(fixture: &dyn SqlFixture) {
    let store = one(fixture, Status::Running).await;
    let before = loaded(&*store, saga(1)).await.log;
    refused(fixture, "update saga_events set type = 'saga.succeeded'").await;
    refused(fixture, "update saga_events set seq = seq + 1 where seq = 2").await;
    assert_eq!(loaded(&*store, saga(1)).await.log, before);
}

/// A log is deleted only after the row of its saga.
pub async fn a_log_lives_as_long_as_its_saga(fixture: &dyn SqlFixture) {
    let store = one(fixture, Status::Succeeded).await;
    refused(fixture, "delete from saga_events").await;
    refused(fixture, "delete from saga_events where seq = 2").await;
    assert_eq!(seqs(&*store, saga(1)).await, [1, 2]);
    allowed(fixture, "delete from sagas").await;
    allowed(fixture, "delete from saga_events").await;
}

/// A succeeded saga never changes.
pub async fn a_saga_at_its_good_end_never_changes(fixture: &dyn SqlFixture) {
    let store = one(fixture, Status::Succeeded).await;
    let before = loaded(&*store, saga(1)).await.summary;
    for change in ["status = 'running'", "status = 'compensating'", "failed_step = 'x'", "inbox_seq = 5"] {
        refused(fixture, &format!("update sagas set {change}")).await;
    }
    assert_eq!(loaded(&*store, saga(1)).await.summary, before);
}

/// A compensated saga never changes.
pub async fn a_compensated_saga_never_changes(fixture: &dyn SqlFixture) {
    one(fixture, Status::Compensated).await;
    refused(fixture, "update sagas set status = 'compensating'").await;
    refused(fixture, "update sagas set failed_step = 'x'").await;
}

/// A failed saga changes only to `compensating`.
pub async fn a_failed_saga_can_only_be_taken_up_again(fixture: &dyn SqlFixture) {
    one(fixture, Status::Failed).await;
    for change in
        ["status = 'running'", "status = 'compensated'", "status = 'succeeded'", "failed_step = 'x'"]
    {
        refused(fixture, &format!("update sagas set {change}")).await;
    }
    allowed(fixture, "update sagas set status = 'compensating'").await;
}

/// Only terminal sagas can be deleted.
pub async fn an_active_saga_is_never_deleted(fixture: &dyn SqlFixture) {
    let store = one(fixture, Status::Compensating).await;
    refused(fixture, "delete from sagas").await;
    apply(&*store, ended(saga(1), 3, fixture.now())).await;
    allowed(fixture, "delete from sagas").await;
}

/// An unknown status is refused.
pub async fn a_status_that_does_not_exist_is_refused(fixture: &dyn SqlFixture) {
    one(fixture, Status::Running).await;
    refused(fixture, "update sagas set status = 'done'").await;
}

/// A key of a start names its saga.
pub async fn a_key_of_a_start_names_its_saga(fixture: &dyn SqlFixture) {
    let start = Commit { claim: Some(claim("k", 1)), ..started(saga(1), fixture.now()) };
    apply(&*fixture.store(), start).await;
    let insert = |scope: &str| {
        format!(
            "insert into idempotency_ledger (scope, key, digest, at)
             select '{scope}', 'other', digest, at from idempotency_ledger where key = 'k'"
        )
    };
    refused(fixture, &insert("saga/deploy")).await;
    allowed(fixture, &insert("outbox/topic")).await;
}
