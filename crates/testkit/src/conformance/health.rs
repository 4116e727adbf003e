//! Health: counts and stuck sagas.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::store::{NewRow, Store, Unregistered};
use backstitch_kernel::saga::Status;
use backstitch_kernel::{SagaId, Timestamp};

use super::Fixture;
use super::definitions::named;
use super::make::{
    A_MOMENT, LEASE, apply, deploy, ended, known, node, owned, saga, started, started_with, updated,
};

/// An empty store is healthy.
pub async fn an_empty_store_is_well(fixture: &dyn Fixture) {
    let counts = fixture.store().counts(&[deploy()]).await.unwrap();
    assert_eq!(counts, backstitch::store::Counts::default());
}

/// Sagas are counted by status, except those that ended well.
pub async fn sagas_are_counted_by_status(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let statuses = [
        Status::Pending,
        Status::Running,
        Status::Running,
        Status::Compensating,
        Status::Failed,
        Status::Succeeded,
    ];
    for (number, status) in (1..).zip(statuses) {
        apply(&*store, started_with(saga(number), now, |row| row.status = status)).await;
    }
    apply(&*store, started(saga(9), now)).await;
    apply(&*store, ended(saga(9), 2, now)).await;
    let counts = store.counts(&[deploy()]).await.unwrap();
    let expected =
        [(Status::Pending, 1), (Status::Running, 2), (Status::Failed, 1), (Status::Compensating, 1)];
    assert_eq!(counts.active, expected.into());
}

/// A saga is stuck if it has long been in its status with nothing due.
pub async fn a_saga_is_stuck_when_nothing_is_due_for_too_long(fixture: &dyn Fixture) {
    let store = fixture.store();
    let began = fixture.now();
    let hour = Duration::from_secs(3_600);
    store.register(&named("deploy", 1)).await.unwrap();
    apply(&*store, started_with(saga(1), began, |row| row.wake_at = Some(began))).await;
    apply(&*store, started(saga(2), began)).await;
    apply(&*store, started_with(saga(3), began, |row| row.wake_at = Some(began.plus(24 * hour)))).await;
    apply(&*store, started(saga(4), began)).await;
    apply(&*store, updated(saga(4), 2, began, |row| row.paused = true)).await;
    apply(&*store, started(saga(5), began)).await;
    apply(&*store, ended(saga(5), 2, began)).await;
    apply(&*store, started_with(saga(6), began, |row| row.status = Status::Failed)).await;
    apply(&*store, started(saga(7), began.plus(hour))).await;
    let due_lately = |row: &mut NewRow| row.wake_at = Some(began.plus(A_MOMENT * 2));
    apply(&*store, started_with(saga(8), began, due_lately)).await;
    assert_eq!(stuck(&*store, began.plus(A_MOMENT)).await, [saga(1), saga(2)]);
    assert_eq!(stuck(&*store, began.plus(hour)).await, [saga(1), saga(2), saga(8), saga(7)]);
}

async fn stuck(store: &dyn Store, since: Timestamp) -> Vec<SagaId> {
    store.stuck(since, 10).await.unwrap().iter().map(|row| row.id).collect()
}

/// The store reports as stuck only what no living node owns; a living node judges its own sagas.
pub async fn only_what_no_living_node_has_is_called_stuck_by_the_store(fixture: &dyn Fixture) {
    let store = fixture.store();
    let began = fixture.now();
    store.register(&named("deploy", 1)).await.unwrap();
    let dead = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), began, dead)).await;
    let since = began.plus(A_MOMENT);
    assert_eq!(stuck(&*store, since).await, []);
    fixture.advance(LEASE + A_MOMENT).await;
    let living = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(2), began, living)).await;
    let adopting = node();
    for _ in 0..2 {
        assert_eq!(stuck(&*store, since).await, [], "it has been without anybody for a moment only");
        assert_eq!(stuck(&*store, fixture.now()).await, [saga(1)]);
        // Adoption also removes a dead node that owned nothing.
        assert_eq!(store.adopt(&adopting, living, &[], fixture.now(), 10).await.unwrap().sagas, []);
    }
}

/// Rows are found by id.
pub async fn rows_are_read_by_their_ids(fixture: &dyn Fixture) {
    let store = fixture.store();
    apply(&*store, started(saga(1), fixture.now())).await;
    apply(&*store, started(saga(2), fixture.now())).await;
    let rows = store.rows(&[saga(2), saga(3)]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [saga(2)]);
    assert_eq!(rows, [store.load(&[saga(2)]).await.unwrap()[0].summary.clone()]);
    assert_eq!(store.rows(&[]).await.unwrap(), []);
}

/// The longest stuck come first, up to the limit.
pub async fn the_longest_stuck_come_first(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let at = |seconds| now.plus(Duration::from_secs(seconds));
    for (number, seconds) in [(1, 30), (2, 10), (3, 20)] {
        apply(&*store, started(saga(number), at(seconds))).await;
    }
    let stuck = store.stuck(at(99), 2).await.unwrap();
    let stuck: Vec<_> = stuck.iter().map(|row| row.id).collect();
    assert_eq!(stuck, [saga(2), saga(3)]);
}

/// Due sagas without a registered definition are listed by definition.
pub async fn sagas_that_wait_for_a_definition_are_named(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let epoch = store.join(&node()).await.unwrap();
    let waiting = [("deploy", 1), ("deploy", 2), ("refund", 1), ("refund", 1)];
    for (number, (name, version)) in (1..).zip(waiting) {
        store.register(&named(name, version)).await.unwrap();
        let commit = started_with(saga(number), now, |row| {
            row.definition = name.into();
            row.version = version;
            row.wake_at = Some(now);
        });
        apply(&*store, commit).await;
    }
    let later = now.plus(Duration::from_secs(3_600));
    let not_due = started_with(saga(5), now, |row| {
        row.definition = "refund".into();
        row.wake_at = Some(later);
    });
    apply(&*store, not_due).await;
    let owned = started_with(saga(6), now, |row| {
        row.definition = "refund".into();
        row.owner = Some(epoch);
    });
    apply(&*store, owned).await;
    fixture.advance(A_MOMENT).await;
    let unregistered =
        |definition: &str, version, sagas| Unregistered { definition: definition.to_owned(), version, sagas };
    let counts = store.counts(&[deploy()]).await.unwrap();
    assert_eq!(counts.unregistered, [unregistered("deploy", 2, 1), unregistered("refund", 1, 2)]);
    let all = [deploy(), known("deploy", 2), known("refund", 1)];
    assert_eq!(store.counts(&all).await.unwrap().unregistered, []);
}

/// A dead node's saga without a registered definition is listed.
pub async fn a_dead_nodes_saga_of_an_unknown_definition_is_named(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    store.register(&named("deploy", 1)).await.unwrap();
    let dead = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, dead)).await;
    fixture.advance(LEASE + A_MOMENT).await;
    let epoch = store.join(&node()).await.unwrap();
    let others = [known("refund", 1)];
    assert!(store.adopt(&node(), epoch, &others, fixture.now(), 10).await.unwrap().sagas.is_empty());
    let counts = store.counts(&others).await.unwrap();
    let expected = Unregistered { definition: "deploy".to_owned(), version: 1, sagas: 1 };
    assert_eq!(counts.unregistered, [expected]);
}
