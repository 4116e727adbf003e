//! Old sagas are deleted with all their rows, and no other saga is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::inbox::{Message, Posted};
use backstitch::jobs::{JobOutcome, Settlement};
use backstitch::store::retention::{Bulk, Gone, OldSagas};
use backstitch::store::{Commit, Cursor, Filter, Verdict};
use backstitch_kernel::saga::{Event, Recorded, Status, codec};
use backstitch_kernel::{SagaId, StepError, Timestamp};

use super::Fixture;
use super::make::{
    A_MOMENT, LEASE, apply, claim, ended, job, load, message, saga, seqs, started, started_with, updated,
    verdict,
};

const AGE: Duration = Duration::from_secs(3600);
const SOME: usize = 100;

async fn look(fixture: &dyn Fixture, status: Status, after: Option<SagaId>, limit: usize) -> OldSagas {
    fixture.store().old_sagas(status, AGE, after, limit).await.unwrap()
}

async fn old(fixture: &dyn Fixture, status: Status) -> Vec<SagaId> {
    look(fixture, status, None, SOME).await.old
}

async fn remove(fixture: &dyn Fixture, sagas: &[SagaId], status: Status) -> Gone {
    fixture.store().remove_sagas(sagas, status, AGE).await.unwrap()
}

/// A decision that leads to this status.
fn becomes(saga: SagaId, seq: u64, at: Timestamp, status: Status) -> Commit {
    let event = match status {
        Status::Succeeded => Event::SagaSucceeded,
        Status::Compensated => Event::SagaCompensated { results: BTreeMap::new() },
        Status::Failed => Event::SagaFailed { step: "build".into(), error: StepError::refused("no") },
        Status::Pending | Status::Running | Status::Compensating => {
            return updated(saga, seq, at, |row| row.status = status);
        }
    };
    let events = vec![Recorded { seq, at, event }];
    Commit { events, ..updated(saga, seq, at, |row| row.status = status) }
}

async fn make(fixture: &dyn Fixture, number: u64, status: Status) -> SagaId {
    let (store, at) = (fixture.store(), fixture.now());
    apply(&*store, started(saga(number), at)).await;
    apply(&*store, becomes(saga(number), 2, at, status)).await;
    saga(number)
}

/// With everything that a saga can have: key, attributes, log, a finished and a failed job.
pub async fn an_ended_saga_goes_with_all_that_is_its_own(fixture: &dyn Fixture) {
    let (store, at) = (fixture.store(), fixture.now());
    let attributes: BTreeMap<String, String> = [("team".to_owned(), "blue".to_owned())].into();
    let with_attributes = |number| {
        let mut commit = started_with(saga(number), at, |row| row.attributes.clone_from(&attributes));
        if let Event::SagaStarted(started) = &mut commit.events[0].event {
            Arc::make_mut(started).attributes.clone_from(&attributes);
        }
        commit
    };
    let jobs = vec![job("build", "a", at), job("build", "b", at)];
    apply(&*store, Commit { claim: Some(claim("k", 1)), jobs, ..with_attributes(1) }).await;
    apply(&*store, with_attributes(2)).await;
    let leased = store.lease_jobs(&["build".to_owned()], LEASE, 2).await.unwrap().leased;
    let reports = [JobOutcome::Completed, JobOutcome::Failed { error: "no".to_owned(), retry_after: None }];
    for (leased, report) in leased.iter().zip(reports) {
        let settlement = Settlement::new(leased.id, leased.lease.token, report);
        store.settle_jobs(&[settlement]).await.unwrap()[0].unwrap();
    }
    apply(&*store, Commit { messages: vec![message("told")], ..ended(saga(1), 2, at) }).await;
    apply(&*store, ended(saga(2), 2, at)).await;

    fixture.advance(AGE).await;
    assert_eq!(old(fixture, Status::Succeeded).await, [], "it is not older than its age");
    fixture.advance(A_MOMENT).await;
    assert_eq!(old(fixture, Status::Succeeded).await, [saga(1), saga(2)]);
    let keys = store.keys_of_sagas(&[saga(1), saga(2)]).await.unwrap();
    assert_eq!((keys.len(), &*keys[0].key, keys[0].saga), (1, "k", Some(saga(1))));
    let gone = remove(fixture, &[saga(1)], Status::Succeeded).await;
    assert_eq!(gone, Gone { sagas: 1, events: 2, keys: 1, jobs: 2 });

    assert!(load(&*store, saga(1)).await.is_none());
    assert_eq!(seqs(&*store, saga(1)).await, [] as [u64; 0]);
    for leased in &leased {
        assert!(store.job(leased.id).await.unwrap().is_none());
    }
    let blue = Filter { attributes, ..Filter::default() };
    let found = store.list(&blue, &Cursor { before: None, limit: 9 }).await.unwrap();
    let found: Vec<SagaId> = found.items.iter().map(|row| row.id).collect();
    assert_eq!(found, [saga(2)], "its neighbour has kept its own");
    assert_eq!(seqs(&*store, saga(2)).await, [1, 2]);
    assert!(store.message_of("deployments", "told").await.unwrap().is_some(), "what it said is kept apart");
    assert_eq!(remove(fixture, &[saga(1)], Status::Succeeded).await, Gone::default(), "once");
}

/// A key is known as long as its saga exists; then it starts another one.
pub async fn a_key_is_free_once_its_saga_is_gone(fixture: &dyn Fixture) {
    let (store, at) = (fixture.store(), fixture.now());
    let start = |number| Commit { claim: Some(claim("k", 1)), ..started(saga(number), fixture.now()) };
    apply(&*store, start(1)).await;
    apply(&*store, ended(saga(1), 2, at)).await;
    fixture.advance(2 * AGE).await;
    assert_eq!(verdict(&*store, start(2)).await, Verdict::Replay(saga(1)));
    let keys = store.old_keys(AGE, None, SOME).await.unwrap();
    assert!(keys.old.is_empty(), "it does not go by itself");
    remove(fixture, &[saga(1)], Status::Succeeded).await;
    assert_eq!(verdict(&*store, start(2)).await, Verdict::Applied);
    assert_eq!(verdict(&*store, start(3)).await, Verdict::Replay(saga(2)));
}

/// Only sagas that ended in this status long enough ago are deleted: no active, waiting or paused ones, no other
/// status, none
/// that ended recently.
pub async fn nothing_else_is_removed_whatever_is_asked_for(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut all = Vec::new();
    for (number, status) in (1..).zip(Status::ALL) {
        all.push(make(fixture, number, status).await);
    }
    let at = fixture.now();
    apply(&*store, started(saga(20), at)).await;
    apply(&*store, updated(saga(20), 2, at, |row| row.paused = true)).await;
    all.push(saga(20));
    fixture.advance(2 * AGE).await;
    let at = fixture.now();
    apply(&*store, started(saga(30), at)).await;
    apply(&*store, ended(saga(30), 2, at)).await;
    all.push(saga(30));

    for status in [Status::Succeeded, Status::Compensated, Status::Failed] {
        let gone = remove(fixture, &all, status).await;
        assert_eq!((gone.sagas, gone.events), (1, 2), "{status:?}");
    }
    let mut left: Vec<SagaId> = store.load(&all).await.unwrap().iter().map(|saga| saga.summary.id).collect();
    left.sort_unstable();
    let places = Status::ALL.iter().zip(&all).filter(|(status, _)| !status.is_terminal());
    let mut kept: Vec<SagaId> = places.map(|(_, id)| *id).collect();
    kept.extend([saga(20), saga(30)]);
    kept.sort_unstable();
    assert_eq!(left, kept);
    for id in kept {
        assert_eq!(seqs(&*store, id).await, [1, 2]);
    }
}

/// Age counts from the end.
pub async fn a_saga_is_as_old_as_its_end(fixture: &dyn Fixture) {
    let store = fixture.store();
    apply(&*store, started(saga(1), fixture.now())).await;
    fixture.advance(10 * AGE).await;
    apply(&*store, ended(saga(1), 2, fixture.now())).await;
    fixture.advance(AGE).await;
    assert_eq!(old(fixture, Status::Succeeded).await, []);
    assert_eq!(remove(fixture, &[saga(1)], Status::Succeeded).await, Gone::default());
    fixture.advance(A_MOMENT).await;
    assert_eq!(old(fixture, Status::Succeeded).await, [saga(1)]);
}

/// A saga with an outstanding hook stays.
pub async fn a_saga_with_something_left_to_do_stays(fixture: &dyn Fixture) {
    let (store, at) = (fixture.store(), fixture.now());
    apply(&*store, started(saga(1), at)).await;
    apply(&*store, Commit { jobs: vec![job("hooks", "", at)], ..ended(saga(1), 2, at) }).await;
    fixture.advance(2 * AGE).await;
    assert_eq!(old(fixture, Status::Succeeded).await, []);
    assert_eq!(remove(fixture, &[saga(1)], Status::Succeeded).await, Gone::default());
    let leased = store.lease_jobs(&["hooks".to_owned()], LEASE, 1).await.unwrap().leased.remove(0);
    assert_eq!(old(fixture, Status::Succeeded).await, [], "it is being called");
    assert_eq!(remove(fixture, &[saga(1)], Status::Succeeded).await, Gone::default());
    let (id, token) = (leased.id, leased.lease.token);
    store.settle_jobs(&[Settlement::new(id, token, JobOutcome::Completed)]).await.unwrap()[0].unwrap();
    assert_eq!(old(fixture, Status::Succeeded).await, [saga(1)]);
    assert_eq!(remove(fixture, &[saga(1)], Status::Succeeded).await.jobs, 1);
}

/// A saga resolved after it was found is active again and stays, even if it fails once more.
pub async fn a_failed_saga_that_is_taken_up_again_stays(fixture: &dyn Fixture) {
    let store = fixture.store();
    let id = make(fixture, 1, Status::Failed).await;
    fixture.advance(2 * AGE).await;
    assert_eq!(old(fixture, Status::Failed).await, [id]);
    apply(&*store, becomes(id, 3, fixture.now(), Status::Compensating)).await;
    assert_eq!(remove(fixture, &[id], Status::Failed).await, Gone::default());
    apply(&*store, becomes(id, 4, fixture.now(), Status::Failed)).await;
    assert_eq!(remove(fixture, &[id], Status::Failed).await, Gone::default());
    assert_eq!(seqs(&*store, id).await, [1, 2, 3, 4]);
}

/// Decisions, messages and reads after the deletion find nothing and leave nothing.
pub async fn whoever_comes_after_the_removal_finds_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let id = make(fixture, 1, Status::Failed).await;
    let later = make(fixture, 2, Status::Failed).await;
    fixture.advance(2 * AGE).await;
    let page = store.list(&Filter::default(), &Cursor { before: None, limit: 1 }).await.unwrap();
    assert_eq!((page.items[0].id, page.next), (later, Some(later)));
    assert_eq!(remove(fixture, &[id, later], Status::Failed).await.sagas, 2);
    assert_eq!(verdict(&*store, becomes(id, 3, fixture.now(), Status::Compensating)).await, Verdict::Fenced);
    assert_eq!(seqs(&*store, id).await, [] as [u64; 0]);
    let cancel = Message::Cancel { note: "late".to_owned() };
    assert_eq!(store.post(id, &cancel, fixture.now()).await.unwrap(), Posted::Unknown);
    assert_eq!(store.heads(&[id]).await.unwrap(), []);
    let rest = store.list(&Filter::default(), &Cursor { before: page.next, limit: 1 }).await.unwrap();
    assert!(rest.items.is_empty() && rest.next.is_none(), "a list goes on behind what is gone");
}

/// A scan continues where it stopped, skips recent ends, and stops before sagas that started too late.
pub async fn a_walk_meets_each_saga_once_and_ends_in_time(fixture: &dyn Fixture) {
    let store = fixture.store();
    for number in 1..=3 {
        apply(&*store, started(saga(number), fixture.now())).await;
    }
    let gone: Vec<SagaId> =
        [make(fixture, 4, Status::Succeeded).await, make(fixture, 5, Status::Succeeded).await].into();
    fixture.advance(2 * AGE).await;
    for number in 1..=3 {
        apply(&*store, ended(saga(number), 2, fixture.now())).await;
    }
    for number in 6..=9 {
        make(fixture, number, Status::Succeeded).await;
    }
    let first = look(fixture, Status::Succeeded, None, 2).await;
    assert_eq!(first, OldSagas { old: vec![], next: Some(saga(2)) });
    let second = look(fixture, Status::Succeeded, first.next, 2).await;
    assert_eq!(second, OldSagas { old: vec![gone[0]], next: Some(gone[0]) });
    let third = look(fixture, Status::Succeeded, second.next, 2).await;
    assert_eq!(
        third,
        OldSagas { old: vec![gone[1]], next: None },
        "behind it began who cannot be old enough"
    );
    let all = look(fixture, Status::Succeeded, None, SOME).await;
    assert_eq!(all, OldSagas { old: gone, next: None });
}

/// The size of a saga is known before it is deleted.
pub async fn the_bulk_of_a_saga_is_that_of_its_log(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    apply(&*store, started(saga(1), now)).await;
    apply(&*store, ended(saga(1), 2, now)).await;
    apply(&*store, started(saga(2), now)).await;
    let mut bulks = store.bulk_of_sagas(&[saga(1), saga(2)]).await.unwrap();
    bulks.sort_by_key(|(saga, _)| *saga);
    let log = store.load(&[saga(1)]).await.unwrap().remove(0).log;
    let data = log.iter().filter_map(|recorded| codec::data(&recorded.event));
    let bytes = data.map(|data| data.len() as u64).sum();
    assert_eq!(bulks[0], (saga(1), Bulk { rows: 2, bytes }));
    assert_eq!((bulks.len(), bulks[1].0, bulks[1].1.rows), (2, saga(2), 1));
}
