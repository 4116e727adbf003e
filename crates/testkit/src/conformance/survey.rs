//! Diagnostics: orphaned sagas, owners, queues and topics.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::store::Commit;
use backstitch::store::diagnostics::{Owner, Queue, Survey, Waiting};
use backstitch_kernel::saga::Status;

use super::Fixture;
use super::make::{A_MOMENT, LEASE, apply, ended, job, node, owned, saga, started, started_with, updated};

async fn survey(fixture: &dyn Fixture) -> Survey {
    fixture.store().survey(10).await.unwrap()
}

/// An empty store and attended sagas have no findings.
pub async fn what_is_looked_after_is_not_adrift(fixture: &dyn Fixture) {
    assert_eq!(survey(fixture).await, Survey::default());
    let (store, now) = (fixture.store(), fixture.now());
    let epoch = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, epoch)).await;
    apply(&*store, started_with(saga(2), now, |row| row.wake_at = Some(now.plus(LEASE)))).await;
    apply(&*store, Commit { jobs: vec![job("work/q", "a", now)], ..started(saga(3), now) }).await;
    apply(&*store, started(saga(4), now)).await;
    apply(&*store, updated(saga(4), 2, now, |row| row.paused = true)).await;
    apply(&*store, started(saga(5), now)).await;
    apply(&*store, ended(saga(5), 2, now)).await;
    apply(&*store, started_with(saga(6), now, |row| row.status = Status::Failed)).await;
    assert_eq!(survey(fixture).await.adrift, []);
}

/// A saga without owner, due time, job and pause is orphaned; the oldest are listed.
pub async fn what_nothing_will_move_is_adrift(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let statuses = [Status::Running, Status::Pending, Status::Compensating];
    for (number, status) in (1..).zip(statuses) {
        apply(&*store, started_with(saga(number), now, |row| row.status = status)).await;
    }
    let adrift =
        |survey: Survey| -> Vec<_> { survey.adrift.iter().map(|row| (row.id, row.status)).collect() };
    let all: Vec<_> = (1..).map(saga).zip(statuses).collect();
    assert_eq!(adrift(survey(fixture).await), all);
    assert_eq!(adrift(store.survey(2).await.unwrap()), all[..2]);
    // A message wakes it.
    let wish = backstitch::inbox::Message::Cancel { note: "it lies there".to_owned() };
    store.post(saga(1), &wish, now).await.unwrap();
    assert_eq!(adrift(survey(fixture).await), all[1..]);
}

/// Each owner is listed once per definition, with whether it is alive.
pub async fn owners_are_told_once_and_whether_they_live(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let (gone, refund) = (4_711, "refund");
    let epoch = store.join(&node()).await.unwrap();
    for (number, definition, owner) in [
        (1, "deploy", epoch),
        (2, "deploy", epoch),
        (3, refund, epoch),
        (4, "deploy", gone),
        (5, "deploy", gone),
    ] {
        let commit = started_with(saga(number), now, |row| {
            row.definition = definition.into();
            row.owner = Some(owner);
        });
        apply(&*store, commit).await;
    }
    let told = |owner: &Owner| {
        let late = owner.heard.as_ref().map(|heard| heard.late);
        (owner.definition.clone(), owner.version, owner.epoch, late)
    };
    let owners: Vec<_> = survey(fixture).await.owners.iter().map(told).collect();
    let lives = Some(Duration::ZERO);
    assert_eq!(
        owners,
        [
            ("deploy".to_owned(), 1, epoch, lives),
            ("deploy".to_owned(), 1, gone, None),
            (refund.to_owned(), 1, epoch, lives),
        ]
    );
    assert_eq!(store.survey(1).await.unwrap().owners.len(), 1);
}

/// Unowned due sagas are listed by definition, with the age of the first.
pub async fn what_waits_is_told_by_definition(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let later = now.plus(Duration::from_secs(3_600));
    for (number, version, wake_at) in [(1, 1, now.plus(A_MOMENT)), (2, 1, now), (3, 1, later), (4, 2, later)]
    {
        let commit = started_with(saga(number), now, |row| {
            row.version = version;
            row.wake_at = Some(wake_at);
        });
        apply(&*store, commit).await;
    }
    fixture.advance(LEASE).await;
    let waiting = survey(fixture).await.waiting;
    let [first, second] = &waiting[..] else { panic!("{waiting:?}") };
    assert_eq!((&*first.definition, first.version), ("deploy", 1));
    assert!(first.late >= LEASE, "{first:?}");
    assert_eq!(second, &Waiting { definition: "deploy".to_owned(), version: 2, late: Duration::ZERO });
}

/// Queues are listed with their first job, and how long it has been due or its lease expired.
pub async fn queues_are_told_with_their_first_job(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let later = now.plus(Duration::from_secs(3_600));
    let jobs = vec![job("a", "1", later), job("a", "2", now), job("b", "3", later), job("c", "4", now)];
    apply(&*store, Commit { jobs, ..started(saga(1), now) }).await;
    let leased = store.lease_jobs(&["c".to_owned()], LEASE, 1).await.unwrap();
    let leased = leased.leased[0].id;
    let fresh = survey(fixture).await;
    assert_eq!(fresh.leased, [Queue { queue: "c".to_owned(), job: leased, late: Duration::ZERO }]);
    fixture.advance(LEASE + LEASE).await;
    let found = survey(fixture).await;
    let [lost] = &found.leased[..] else { panic!("{found:?}") };
    assert!(lost.late >= LEASE && lost.job == leased, "{lost:?}");
    let [a, b] = &found.pending[..] else { panic!("{found:?}") };
    assert_eq!((&*a.queue, &*b.queue, b.late), ("a", "b", Duration::ZERO));
    assert!(a.late >= LEASE + LEASE, "{a:?}");
    let first = store.job(a.job).await.unwrap().unwrap();
    assert_eq!(first.subject, "2", "the one that is due first");
}

/// Queues of one kind, such as hooks, hide none of another.
pub async fn queues_of_one_kind_hide_none_of_another(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let names = ["hook/a", "hook/b", "hook/c", "product/x/d", "work/e", "work/f", "work/g"];
    let jobs = names.iter().map(|name| job(name, name, now)).collect();
    apply(&*store, Commit { jobs, ..started(saga(1), now) }).await;
    let pending = store.survey(2).await.unwrap().pending;
    let pending: Vec<&str> = pending.iter().map(|it| &*it.queue).collect();
    assert_eq!(pending, ["hook/a", "hook/b", "product/x/d", "work/e", "work/f"]);
}

/// Topics are listed with how long their first message has been due.
pub async fn topics_are_told_with_how_late_they_are(fixture: &dyn Fixture) {
    let (store, now) = (fixture.store(), fixture.now());
    let messages = vec![super::make::message("m-1")];
    apply(&*store, Commit { messages, ..started(saga(1), now) }).await;
    fixture.advance(LEASE).await;
    let waiting = store.waiting_topics().await.unwrap();
    assert_eq!((waiting.len(), waiting[0].due_in), (1, Duration::ZERO));
    assert!(waiting[0].late >= LEASE, "{waiting:?}");
}
