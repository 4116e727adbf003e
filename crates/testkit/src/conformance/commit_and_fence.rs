//! Appends to a log: the first append of a number wins.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use backstitch::store::{Commit, RowWrite, Summary, Verdict};
use backstitch_kernel::saga::event::Started;
use backstitch_kernel::saga::{Event, Outside, Phase, Recorded, Resolution, Status};
use backstitch_kernel::{ErrorKind, Payload, SagaId, StepError, StepId, Timestamp};

use super::Fixture;
use super::make::{appended, apply, load, loaded, saga, seqs, started, started_with, updated, verdict};

/// A new saga is read back unchanged.
pub async fn a_new_saga_is_read_back_as_it_was_written(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (now, later) = (fixture.now(), fixture.now().plus(Duration::from_secs(60)));
    let commit = started_with(saga(1), now, |row| {
        row.status = Status::Pending;
        row.wake_at = Some(later);
        row.correlation_id = Some("größer als 'quotes' \"and\" \\ 🧵".to_owned());
        row.attributes = BTreeMap::from([("customer".to_owned(), "c1".to_owned())]);
    });
    let events = commit.events.clone();
    apply(&*store, commit).await;
    let stored = loaded(&*store, saga(1)).await;
    let row = Summary {
        id: saga(1),
        definition: "deploy".into(),
        version: 1,
        status: Status::Pending,
        paused: false,
        failed_step: None,
        stuck: None,
        owner: None,
        wake_at: Some(later),
        correlation_id: Some("größer als 'quotes' \"and\" \\ 🧵".to_owned()),
        created_at: now,
        updated_at: now,
    };
    assert_eq!(stored.summary, row);
    assert_eq!(stored.log, events);
    assert!(stored.inbox.is_empty());
    assert_eq!(stored.inbox_seq, 0);
}

/// An unknown saga is not found.
pub async fn a_saga_that_nobody_started_is_not_there(fixture: &dyn Fixture) {
    let store = fixture.store();
    apply(&*store, started(saga(1), fixture.now())).await;
    let found = store.load(&[saga(2), saga(1), saga(3)]).await.unwrap();
    assert_eq!(found.iter().map(|stored| stored.summary.id).collect::<Vec<_>>(), [saga(1)]);
    assert!(store.log(saga(2), 0, 10).await.unwrap().is_empty());
}

/// Every kind of event is written and read back.
pub async fn every_kind_of_event_is_read_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let events: Vec<_> = every_event(now)
        .into_iter()
        .zip(1..)
        .map(|(event, seq)| Recorded { seq, at: now.plus(Duration::from_micros(seq)), event })
        .collect();
    let mut commit = started(saga(1), now);
    commit.events.clone_from(&events);
    apply(&*store, commit).await;
    assert_eq!(store.log(saga(1), 0, 100).await.unwrap(), events);
    let names: BTreeSet<&str> = events.iter().map(|recorded| recorded.event.name()).collect();
    assert_eq!(names, BTreeSet::from(Event::NAMES), "these are all the kinds there are");
}

fn every_event(now: Timestamp) -> Vec<Event> {
    let step = StepId::from("build image");
    let error = StepError::new(ErrorKind::InDoubt, "no answer \u{2603}")
        .with_code("TIMEOUT")
        .with_retry_after(Duration::from_secs(3));
    let started = Started {
        definition: "deploy".to_owned(),
        version: 4_000_000_000,
        input: Payload::parse("[1, {\"deep\": [null, true, \"\\u0000\"]}]").unwrap(),
        correlation_id: Some("pr-7".to_owned()),
        deadline: Some(now),
        attributes: BTreeMap::from([("customer".to_owned(), "c1".to_owned())]),
    };
    let outside = Outside { queue: "builders \u{2603}".into(), queue_until: Some(now), until: Some(now) };
    vec![
        Event::SagaStarted(Arc::new(started)),
        Event::StepStarted { step: step.clone(), attempt: 1, outside: None },
        Event::StepStarted { step: step.clone(), attempt: 2, outside: Some(outside.clone()) },
        Event::StepCompensating { step: step.clone(), attempt: 2, outside: Some(outside) },
        Event::StepLeased { step: step.clone(), phase: Phase::Undo, attempt: 2, until: now },
        Event::StepRetry {
            step: step.clone(),
            phase: Phase::Do,
            attempt: 1,
            max_attempts: 3,
            error: error.clone(),
            retry_at: now,
        },
        Event::StepSucceeded { step: step.clone(), attempt: 2, result: Payload::null() },
        Event::StepSucceeded {
            step: step.clone(),
            attempt: 2,
            result: Payload::parse("{\"id\": 1}").unwrap(),
        },
        Event::StepFailed { step: step.clone(), attempt: 3, error: error.clone(), in_doubt: true },
        Event::StepTimedOut { step: step.clone(), attempt: 3, error: error.clone() },
        Event::SagaPaused { note: "lunch".to_owned() },
        Event::SagaResumed { note: String::new() },
        Event::SagaAdopted { node: "b".to_owned(), epoch: i64::MAX },
        Event::SagaCompensating { failed_step: None, error: error.clone() },
        Event::SagaCompensating { failed_step: Some(step.clone()), error: error.clone() },
        Event::StepCompensating { step: step.clone(), attempt: 1, outside: None },
        Event::StepCompensated {
            step: step.clone(),
            attempt: 1,
            result: Payload::parse(r#"{"refund": 7}"#).unwrap(),
        },
        Event::StepCompensationFailed { step: step.clone(), attempt: 6, error: error.clone() },
        Event::SagaFailed { step: step.clone(), error },
        Event::StepResolved { step: step.clone(), action: Resolution::Skip, note: "by hand".to_owned() },
        Event::SagaCompensated {
            results: BTreeMap::from([(step, Payload::parse(r#"{"refund": 7}"#).unwrap())]),
        },
        Event::SagaSucceeded,
    ]
}

/// A log is read in pages from any number.
pub async fn a_log_is_read_in_parts(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    for seq in 2..=5 {
        apply(&*store, appended(saga(1), seq, now)).await;
    }
    let part = async |after, limit| -> Vec<u64> {
        let log = store.log(saga(1), after, limit).await.unwrap();
        log.iter().map(|recorded| recorded.seq).collect()
    };
    assert_eq!(part(0, 2).await, [1, 2]);
    assert_eq!(part(2, 2).await, [3, 4]);
    assert_eq!(part(4, 2).await, [5]);
    assert_eq!(part(5, 2).await, [0; 0]);
}

/// Of two owners that append the same number, the second loses.
pub async fn whoever_appends_a_number_first_has_decided(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    let winner = appended(saga(1), 2, now);
    let events = winner.events.clone();
    apply(&*store, winner).await;
    let loser = updated(saga(1), 2, now, |row| row.status = Status::Compensating);
    assert_eq!(verdict(&*store, loser).await, Verdict::Fenced);
    let stored = loaded(&*store, saga(1)).await;
    assert_eq!(stored.log[1..], events);
    assert_eq!(stored.summary.status, Status::Running);
}

/// The same within one batch.
pub async fn whoever_comes_first_in_a_batch_has_decided(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    let batch = [appended(saga(1), 2, now), appended(saga(1), 2, now)];
    assert_eq!(store.commit(&batch).await.unwrap(), [Verdict::Applied, Verdict::Fenced]);
    assert_eq!(seqs(&*store, saga(1)).await, [1, 2]);
}

/// A log has no gaps.
pub async fn a_number_beyond_the_next_one_is_fenced(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    assert_eq!(verdict(&*store, appended(saga(1), 3, now)).await, Verdict::Fenced);
    assert_eq!(verdict(&*store, updated(saga(1), 3, now, |_| {})).await, Verdict::Fenced);
    assert_eq!(seqs(&*store, saga(1)).await, [1]);
}

/// A decision about an unknown saga is fenced.
pub async fn a_decision_about_an_unknown_saga_is_fenced(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let mut late_start = started(saga(1), now);
    late_start.events[0].seq = 2;
    for commit in [
        appended(saga(1), 1, now),
        appended(saga(1), 2, now),
        updated(saga(1), 1, now, |_| {}),
        updated(saga(1), 2, now, |_| {}),
        late_start,
    ] {
        assert_eq!(verdict(&*store, commit).await, Verdict::Fenced);
    }
    assert!(load(&*store, saga(1)).await.is_none());
    assert!(store.log(saga(1), 0, 10).await.unwrap().is_empty());
}

/// A saga is started once.
pub async fn a_second_start_of_the_same_saga_is_fenced(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    let again = started_with(saga(1), now, |row| row.status = Status::Pending);
    assert_eq!(verdict(&*store, again).await, Verdict::Fenced);
    assert_eq!(loaded(&*store, saga(1)).await.summary.status, Status::Running);
    assert_eq!(seqs(&*store, saga(1)).await, [1]);
}

/// Results come in order, and a fenced decision does not affect others.
pub async fn a_fenced_decision_does_not_disturb_its_neighbours(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(2), now)).await;
    let batch = [
        started(saga(3), now),
        appended(saga(2), 7, now),
        started(saga(1), now),
        appended(saga(9), 2, now),
        updated(saga(2), 2, now, |row| row.status = Status::Compensating),
    ];
    let expected = [Verdict::Applied, Verdict::Fenced, Verdict::Applied, Verdict::Fenced, Verdict::Applied];
    assert_eq!(store.commit(&batch).await.unwrap(), expected);
    assert_eq!(seqs(&*store, saga(1)).await, [1]);
    assert_eq!(seqs(&*store, saga(2)).await, [1, 2]);
    assert_eq!(seqs(&*store, saga(3)).await, [1]);
    assert_eq!(loaded(&*store, saga(2)).await.summary.status, Status::Compensating);
}

/// An empty batch is written at once.
pub async fn an_empty_batch_is_no_work(fixture: &dyn Fixture) {
    assert_eq!(fixture.store().commit(&[]).await.unwrap(), []);
}

/// The row shows the newest decision.
pub async fn a_row_shows_what_was_decided_last(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let (later, wake_at) = (now.plus(Duration::from_secs(1)), now.plus(Duration::from_secs(99)));
    apply(&*store, started_with(saga(1), now, |row| row.owner = Some(7))).await;
    let before = loaded(&*store, saga(1)).await.summary;
    let update = updated(saga(1), 2, later, |row| {
        row.status = Status::Compensating;
        row.paused = true;
        row.failed_step = Some(StepId::from("build"));
        row.wake_at = Some(wake_at);
    });
    apply(&*store, update).await;
    let after = Summary {
        status: Status::Compensating,
        paused: true,
        failed_step: Some(StepId::from("build")),
        owner: None,
        wake_at: Some(wake_at),
        updated_at: later,
        ..before
    };
    assert_eq!(loaded(&*store, saga(1)).await.summary, after);
}

/// A decision may contain many events.
pub async fn a_decision_with_many_events_is_written_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let mut commit = started(saga(1), now);
    for seq in 2..=200 {
        commit.events.extend(appended(saga(1), seq, now).events);
    }
    let events = commit.events.clone();
    apply(&*store, commit).await;
    assert_eq!(loaded(&*store, saga(1)).await.log, events);
}

/// A saga can end with its first decision.
pub async fn a_saga_can_end_with_its_first_decision(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let mut commit = started(saga(1), now);
    if let Some(RowWrite::Insert(row)) = &mut commit.row {
        row.status = Status::Compensated;
        row.failed_step = Some(StepId::from("build"));
    }
    commit.events.push(Recorded {
        seq: 2,
        at: now,
        event: Event::SagaCompensated { results: BTreeMap::new() },
    });
    apply(&*store, commit).await;
    let row = loaded(&*store, saga(1)).await.summary;
    assert_eq!((row.status, row.failed_step), (Status::Compensated, Some(StepId::from("build"))));
}

/// Nothing follows a successful end, whatever number a decision states.
pub async fn nothing_follows_a_good_end(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let ends = [
        (Event::SagaSucceeded, Status::Succeeded),
        (Event::SagaCompensated { results: BTreeMap::new() }, Status::Compensated),
    ];
    for (number, (event, end)) in (1..).zip(ends) {
        let saga = saga(number);
        apply(&*store, started(saga, now)).await;
        apply(&*store, ended_by(saga, event, end, now)).await;
        let mut late = vec![appended(saga, 3, now)];
        let statuses = [Status::Running, Status::Compensating, end];
        late.extend(statuses.map(|status| updated(saga, 3, now, |row| row.status = status)));
        for commit in late {
            assert_eq!(verdict(&*store, commit.clone()).await, Verdict::Fenced, "{end:?}, then {commit:?}");
        }
        assert_eq!(seqs(&*store, saga).await, [1, 2]);
        assert_eq!(loaded(&*store, saga).await.summary.status, end);
    }
}

/// Only a resolution follows a failed rollback.
pub async fn only_a_new_try_follows_a_failed_rollback(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    apply(&*store, started(saga(1), now)).await;
    let error = StepError::new(ErrorKind::Refused, "it stays");
    let failed = Event::SagaFailed { step: StepId::from("build"), error };
    apply(&*store, ended_by(saga(1), failed, Status::Failed, now)).await;
    let mut late = vec![appended(saga(1), 3, now)];
    let statuses = [Status::Running, Status::Succeeded, Status::Compensated, Status::Failed];
    late.extend(statuses.map(|status| updated(saga(1), 3, now, |row| row.status = status)));
    for commit in late {
        let told = verdict(&*store, commit).await;
        assert!(matches!(told, Verdict::Fenced | Verdict::Refused(_) | Verdict::Rejected(_)), "{told:?}");
    }
    assert_eq!(seqs(&*store, saga(1)).await, [1, 2]);
    apply(&*store, updated(saga(1), 3, now, |row| row.status = Status::Compensating)).await;
    assert_eq!(seqs(&*store, saga(1)).await, [1, 2, 3]);
}

/// The second decision of a saga, and its last.
fn ended_by(saga: SagaId, event: Event, status: Status, at: Timestamp) -> Commit {
    let events = vec![Recorded { seq: 2, at, event }];
    Commit { events, ..updated(saga, 2, at, |row| row.status = status) }
}
