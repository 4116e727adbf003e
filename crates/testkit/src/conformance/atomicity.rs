//! A decision is written completely or not at all.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use backstitch::inbox::Message;
use backstitch::store::{Commit, Cursor, Filter, RowWrite, Verdict};
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Status;

use super::Fixture;
use super::make::{
    LEASE, apply, claim, claim_messages, ended, job, load, loaded, message, saga, seqs, started, updated,
    verdict,
};

/// The same decision with everything that a decision can contain.
fn laden(commit: Commit, fixture: &dyn Fixture) -> Commit {
    let mut commit = Commit {
        consume_inbox_through: Some(1),
        jobs: vec![job("hooks", "a", fixture.now()), job("hooks", "b", fixture.now())],
        messages: vec![message("k1"), message("k2")],
        claim: commit.claim.clone().or(Some(claim("laden", 1))),
        ..commit
    };
    if let Some(RowWrite::Insert(row)) = &mut commit.row {
        row.attributes = BTreeMap::from([("customer".to_owned(), "laden".to_owned())]);
    }
    commit
}

/// Checks that no part of a full decision exists.
async fn assert_nothing_of_it(fixture: &dyn Fixture, about: &str) {
    let store = fixture.store();
    let jobs = store.lease_jobs(&["hooks".to_owned()], LEASE, 10).await.unwrap().leased;
    assert!(jobs.is_empty(), "{about}: jobs");
    let messages = claim_messages(&*store, 10).await;
    assert!(messages.is_empty(), "{about}: messages");
    let attributes = BTreeMap::from([("customer".to_owned(), "laden".to_owned())]);
    let filter = Filter { attributes, ..Filter::default() };
    let page = store.list(&filter, &Cursor { before: None, limit: 10 }).await.unwrap();
    assert!(page.items.is_empty(), "{about}: attributes");
    let probe = Commit { claim: Some(claim("laden", 9)), ..started(saga(1_000), fixture.now()) };
    assert_eq!(verdict(&*store, probe).await, Verdict::Applied, "{about}: the key");
}

/// A saga with one unread message.
async fn with_mail(fixture: &dyn Fixture, saga: SagaId) {
    let store = fixture.store();
    apply(&*store, started(saga, fixture.now())).await;
    store.post(saga, &Message::Cancel { note: String::new() }, fixture.now()).await.unwrap();
}

/// An applied decision is complete.
pub async fn an_applied_decision_is_there_as_a_whole(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let store = fixture.store();
    let commit = updated(saga(1), 2, fixture.now(), |row| row.status = Status::Compensating);
    apply(&*store, laden(commit, fixture)).await;
    let stored = loaded(&*store, saga(1)).await;
    assert_eq!(stored.summary.status, Status::Compensating);
    assert_eq!(stored.log.len(), 2);
    assert!(stored.inbox.is_empty());
    assert_eq!(store.lease_jobs(&["hooks".to_owned()], LEASE, 10).await.unwrap().leased.len(), 2);
    assert_eq!(claim_messages(&*store, 10).await.len(), 2);
    let again = Commit { claim: Some(claim("laden", 1)), ..started(saga(2), fixture.now()) };
    assert_eq!(verdict(&*store, again).await, Verdict::Replay(saga(1)));
}

/// A fenced start leaves nothing.
pub async fn nothing_of_a_fenced_start_is_visible(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let store = fixture.store();
    assert_eq!(verdict(&*store, laden(started(saga(1), fixture.now()), fixture)).await, Verdict::Fenced);
    assert_eq!(seqs(&*store, saga(1)).await, [1]);
    assert_eq!(loaded(&*store, saga(1)).await.inbox.len(), 1);
    assert_nothing_of_it(fixture, "a fenced start").await;
}

/// A fenced update leaves nothing.
pub async fn nothing_of_a_fenced_update_is_visible(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let store = fixture.store();
    let commit = updated(saga(1), 7, fixture.now(), |row| row.status = Status::Compensating);
    assert_eq!(verdict(&*store, laden(commit, fixture)).await, Verdict::Fenced);
    let stored = loaded(&*store, saga(1)).await;
    assert_eq!((stored.summary.status, stored.log.len(), stored.inbox.len()), (Status::Running, 1, 1));
    assert_nothing_of_it(fixture, "a fenced update").await;
}

/// A decision blocked by an unread message leaves nothing.
pub async fn nothing_of_a_held_up_decision_is_visible(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let store = fixture.store();
    let commit = updated(saga(1), 2, fixture.now(), |row| {
        row.status = Status::Compensating;
        row.inbox_seen = Some(0);
    });
    assert_eq!(verdict(&*store, laden(commit, fixture)).await, Verdict::InboxChanged);
    let stored = loaded(&*store, saga(1)).await;
    assert_eq!((stored.summary.status, stored.log.len(), stored.inbox.len()), (Status::Running, 1, 1));
    assert_nothing_of_it(fixture, "a held-up decision").await;
}

/// A decision after the end leaves nothing, and the end takes precedence over unread messages.
pub async fn nothing_of_a_decision_after_the_end_is_visible(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let store = fixture.store();
    apply(&*store, Commit { consume_inbox_through: Some(1), ..ended(saga(1), 2, fixture.now()) }).await;
    let before = loaded(&*store, saga(1)).await;
    for inbox_seen in [Some(0), Some(1), None] {
        let late = updated(saga(1), 3, fixture.now(), |row| {
            row.status = Status::Compensating;
            row.inbox_seen = inbox_seen;
        });
        let unclaimed = Commit { claim: None, ..laden(late.clone(), fixture) };
        assert_eq!(verdict(&*store, unclaimed).await, Verdict::Fenced, "{inbox_seen:?}");
        assert_eq!(verdict(&*store, laden(late, fixture)).await, Verdict::Fenced, "{inbox_seen:?}");
    }
    let after = loaded(&*store, saga(1)).await;
    assert_eq!((after.summary, after.log), (before.summary, before.log));
    assert_nothing_of_it(fixture, "a decision after the end").await;
}

/// A repeated or refused start leaves nothing.
pub async fn nothing_of_a_repeated_or_conflicting_start_is_visible(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, Commit { claim: Some(claim("used", 1)), ..started(saga(1), now) }).await;
    for (digest, about) in [(1, "a repeated start"), (2, "a conflicting start")] {
        let commit = Commit { claim: Some(claim("used", digest)), ..started(saga(2), now) };
        let verdict = verdict(&*store, laden(commit, fixture)).await;
        assert!(matches!(verdict, Verdict::Replay(_) | Verdict::Conflict { .. }), "{about}: {verdict:?}");
        assert!(load(&*store, saga(2)).await.is_none(), "{about}");
        assert!(store.log(saga(2), 0, 10).await.unwrap().is_empty(), "{about}");
    }
    assert_nothing_of_it(fixture, "a repeated or conflicting start").await;
}

/// A mixed batch leaves exactly its applied decisions.
pub async fn a_mixed_batch_leaves_exactly_its_winners(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let store = fixture.store();
    let now = fixture.now();
    let held_up = updated(saga(1), 2, now, |row| row.inbox_seen = Some(0));
    let batch = [
        laden(held_up, fixture),
        Commit { claim: Some(claim("won", 1)), ..started(saga(2), now) },
        laden(started(saga(1), now), fixture),
        Commit { messages: vec![message("won")], ..started(saga(3), now) },
        laden(updated(saga(4), 2, now, |_| {}), fixture),
    ];
    let expected =
        [Verdict::InboxChanged, Verdict::Applied, Verdict::Fenced, Verdict::Applied, Verdict::Fenced];
    assert_eq!(store.commit(&batch).await.unwrap(), expected);
    let outgoing = claim_messages(&*store, 10).await;
    assert_eq!(outgoing.len(), 1);
    assert_eq!(outgoing[0].message, message("won"));
    assert_nothing_of_it(fixture, "the losers of a batch").await;
}

/// An applied decision survives the process.
pub async fn what_was_applied_survives_the_process(fixture: &dyn Fixture) {
    with_mail(fixture, saga(1)).await;
    let commit = updated(saga(1), 2, fixture.now(), |row| row.status = Status::Compensating);
    apply(&*fixture.store(), laden(commit, fixture)).await;
    let before = loaded(&*fixture.store(), saga(1)).await;
    fixture.reopen().await;
    let store = fixture.store();
    let after = loaded(&*store, saga(1)).await;
    assert_eq!((after.summary, after.log, after.inbox_seq), (before.summary, before.log, before.inbox_seq));
    assert_eq!(store.lease_jobs(&["hooks".to_owned()], LEASE, 10).await.unwrap().leased.len(), 2);
    assert_eq!(claim_messages(&*store, 10).await.len(), 2);
}
