//! Idempotency keys of starts.

use std::time::Duration;

use backstitch::store::{Claim, Commit, Verdict};
use backstitch_kernel::idempotency::Digest;

use super::Fixture;
use super::make::{appended, apply, claim, load, saga, seqs, started, verdict};

/// A repeated request returns the first saga.
pub async fn a_repeated_start_answers_with_the_first_saga(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) }).await;
    for repeat in 2..4 {
        let again = Commit { claim: Some(claim("pr-7", 1)), ..started(saga(repeat), now) };
        assert_eq!(verdict(&*store, again).await, Verdict::Replay(saga(1)));
        assert!(load(&*store, saga(repeat)).await.is_none());
    }
}

/// A repeated request also returns a saga that has progressed.
pub async fn a_repeated_start_changes_nothing_in_a_saga_that_went_on(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let start = || Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) };
    apply(&*store, start()).await;
    apply(&*store, appended(saga(1), 2, now)).await;
    assert_eq!(verdict(&*store, start()).await, Verdict::Replay(saga(1)));
    assert_eq!(seqs(&*store, saga(1)).await, [1, 2]);
}

/// Another request under the same key is refused with the first saga.
pub async fn another_request_under_a_used_key_is_a_conflict(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) }).await;
    let later = now.plus(Duration::from_secs(1));
    let other = Commit { claim: Some(claim("pr-7", 2)), ..started(saga(2), later) };
    let conflict = Verdict::Conflict { saga: saga(1), digest: Digest([1; 32]), at: now };
    assert_eq!(verdict(&*store, other).await, conflict);
    assert!(load(&*store, saga(2)).await.is_none());
}

/// A key is unique in its scope.
pub async fn the_same_key_in_another_scope_is_another_key(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let elsewhere = Claim { scope: "saga/refund".to_owned(), ..claim("pr-7", 2) };
    apply(&*store, Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) }).await;
    apply(&*store, Commit { claim: Some(elsewhere), ..started(saga(2), now) }).await;
}

/// Two starts under one key in a batch start one saga.
pub async fn a_start_is_repeated_within_one_batch(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let batch = [
        Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) },
        Commit { claim: Some(claim("pr-7", 1)), ..started(saga(2), now) },
        Commit { claim: Some(claim("pr-7", 2)), ..started(saga(3), now) },
    ];
    let conflict = Verdict::Conflict { saga: saga(1), digest: Digest([1; 32]), at: now };
    let expected = vec![Verdict::Applied, Verdict::Replay(saga(1)), conflict];
    assert_eq!(store.commit(&batch).await.ok(), Some(expected));
    assert!(load(&*store, saga(2)).await.is_none());
    assert!(load(&*store, saga(3)).await.is_none());
}

/// A fenced start does not use its key.
pub async fn a_fenced_start_leaves_its_key_free(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    let fenced = Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) };
    assert_eq!(verdict(&*store, fenced).await, Verdict::Fenced);
    apply(&*store, Commit { claim: Some(claim("pr-7", 2)), ..started(saga(2), now) }).await;
}

/// Keys survive the process.
pub async fn a_key_is_remembered_by_the_next_process(fixture: &dyn Fixture) {
    let now = fixture.now();
    apply(&*fixture.store(), Commit { claim: Some(claim("pr-7", 1)), ..started(saga(1), now) }).await;
    fixture.reopen().await;
    let again = Commit { claim: Some(claim("pr-7", 1)), ..started(saga(2), now) };
    assert_eq!(verdict(&*fixture.store(), again).await, Verdict::Replay(saga(1)));
}
