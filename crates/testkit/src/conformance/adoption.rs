//! Adoption of a dead node's sagas, and of due sagas without an owner.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use backstitch::Announced;
use backstitch::store::nodes::{AdoptedSaga, Epoch, Known, Node};
use backstitch::store::outbox::SAGAS;
use backstitch::store::{Store, Verdict};
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::{Event, Status};

use super::Fixture;
use super::make::{
    A_MOMENT, LEASE, appended, apply, claim_messages, deploy, ended, known, loaded, node, owned, saga, seqs,
    started, started_with, updated, verdict,
};

/// A node that crashes, and the next one.
async fn two_lives(fixture: &dyn Fixture, before: impl AsyncFnOnce(&dyn Store, Epoch)) -> Epoch {
    let store = fixture.store();
    let dead = store.join(&node()).await.unwrap();
    before(&*store, dead).await;
    fixture.advance(LEASE + A_MOMENT).await;
    store.join(&successor()).await.unwrap()
}

fn successor() -> Node {
    Node { name: "b".to_owned(), ..node() }
}

async fn adopt(fixture: &dyn Fixture, epoch: Epoch, known: &[Known], limit: usize) -> BTreeSet<SagaId> {
    let adopted =
        fixture.store().adopt(&successor(), epoch, known, fixture.now(), limit).await.unwrap().sagas;
    let unique: BTreeSet<_> = adopted.iter().map(|adopted| adopted.id).collect();
    assert_eq!(unique.len(), adopted.len(), "a saga was adopted twice");
    unique
}

/// Adoption changes the owner and appends an event.
pub async fn a_dead_nodes_saga_is_taken_over_and_its_log_says_so(fixture: &dyn Fixture) {
    let now = fixture.now();
    let epoch = two_lives(fixture, async |store, dead| apply(store, owned(saga(1), now, dead)).await).await;
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [saga(1)].into());
    let stored = loaded(&*fixture.store(), saga(1)).await;
    assert_eq!(stored.summary.owner, Some(epoch));
    assert_eq!(stored.summary.wake_at, None);
    assert_eq!(stored.summary.status, Status::Running);
    let last = stored.log.last().unwrap();
    assert_eq!((last.seq, &last.event), (2, &Event::SagaAdopted { node: "b".to_owned(), epoch }));
}

/// The old owner's appends are fenced.
pub async fn the_old_owners_decision_is_fenced(fixture: &dyn Fixture) {
    let now = fixture.now();
    let epoch = two_lives(fixture, async |store, dead| apply(store, owned(saga(1), now, dead)).await).await;
    let store = fixture.store();
    adopt(fixture, epoch, &[deploy()], 10).await;
    assert_eq!(verdict(&*store, appended(saga(1), 2, now)).await, Verdict::Fenced);
    assert_eq!(verdict(&*store, ended(saga(1), 2, now)).await, Verdict::Fenced);
    apply(&*store, appended(saga(1), 3, now)).await;
}

/// A saga is adopted once.
pub async fn nothing_is_adopted_twice(fixture: &dyn Fixture) {
    let now = fixture.now();
    let epoch = two_lives(fixture, async |store, dead| apply(store, owned(saga(1), now, dead)).await).await;
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await.len(), 1);
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await.len(), 0);
    assert_eq!(seqs(&*fixture.store(), saga(1)).await, [1, 2]);
}

/// A node adopts in batches until no saga is left.
pub async fn adoption_goes_in_batches_until_nothing_is_left(fixture: &dyn Fixture) {
    let now = fixture.now();
    let epoch = two_lives(fixture, async |store, dead| {
        for number in 1..=5 {
            apply(store, owned(saga(number), now, dead)).await;
        }
        apply(store, started_with(saga(6), now, |row| row.wake_at = Some(now))).await;
    })
    .await;
    let mut all = BTreeSet::new();
    for expected in [4, 2, 0] {
        let adopted = adopt(fixture, epoch, &[deploy()], 4).await;
        assert_eq!(adopted.len(), expected);
        all.extend(adopted);
    }
    assert_eq!(all, (1..=6).map(saga).collect());
}

/// A node adopts only definitions and versions that it has.
pub async fn a_definition_the_node_lacks_is_skipped(fixture: &dyn Fixture) {
    let now = fixture.now();
    let epoch = two_lives(fixture, async |store, dead| {
        apply(store, owned(saga(1), now, dead)).await;
        for number in [2, 3] {
            let commit = started_with(saga(number), now, |row| {
                row.version = 2;
                row.owner = (number == 2).then_some(dead);
                row.wake_at = (number == 3).then_some(now);
            });
            apply(store, commit).await;
        }
        apply(store, started_with(saga(4), now, |row| row.definition = "refund".into())).await;
    })
    .await;
    assert_eq!(adopt(fixture, epoch, &[], 10).await, [].into());
    assert_eq!(adopt(fixture, epoch, &[known("refund", 2)], 10).await, [].into());
    assert_eq!(adopt(fixture, epoch, &[deploy(), known("refund", 2)], 10).await, [saga(1)].into());
    assert_eq!(seqs(&*fixture.store(), saga(2)).await, [1]);
    assert_eq!(adopt(fixture, epoch, &[known("deploy", 2)], 10).await, [saga(2), saga(3)].into());
}

/// An unowned saga is adopted when it is due.
pub async fn an_unowned_saga_is_adopted_once_it_is_due(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let epoch = store.join(&successor()).await.unwrap();
    // Shorter than the lease, so the waiting node stays alive.
    let wait = LEASE / 2;
    let due = now.plus(wait);
    apply(&*store, started_with(saga(1), now, |row| row.wake_at = Some(due))).await;
    apply(&*store, started(saga(2), now)).await;
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [].into());
    fixture.advance(wait).await;
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [saga(1)].into());
    let row = loaded(&*store, saga(1)).await.summary;
    assert_eq!((row.owner, row.wake_at), (Some(epoch), None));
}

/// A released saga is adopted without an event, and nothing is published.
pub async fn released_saga_is_adopted_without_an_event(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let epoch = store.join(&successor()).await.unwrap();
    apply(&*store, started_with(saga(1), now, |row| row.wake_at = Some(now))).await;
    let node = Node { announced: Announced::matching(["saga.adopted"]).unwrap(), ..successor() };
    let adopted = store.adopt(&node, epoch, &[deploy()], fixture.now(), 10).await.unwrap().sagas;
    assert_eq!(adopted, [AdoptedSaga { id: saga(1), seq: None }]);
    assert_eq!(seqs(&*store, saga(1)).await, [1]);
    assert!(claim_messages(&*store, 10).await.is_empty());
    assert!(store.adopt(&node, epoch, &[deploy()], fixture.now(), 10).await.unwrap().sagas.is_empty());
    apply(&*store, appended(saga(1), 2, now)).await;
}

/// A node does not adopt its own sagas.
pub async fn a_nodes_own_sagas_are_left_alone(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let epoch = store.join(&successor()).await.unwrap();
    apply(&*store, owned(saga(1), now, epoch)).await;
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [].into());
}

/// A terminal saga is not adopted.
pub async fn an_ended_saga_is_never_adopted(fixture: &dyn Fixture) {
    let now = fixture.now();
    let epoch = two_lives(fixture, async |store, dead| {
        for (number, status) in [(1, Status::Succeeded), (2, Status::Compensated), (3, Status::Failed)] {
            apply(store, owned(saga(number), now, dead)).await;
            apply(store, updated(saga(number), 2, now, |row| row.status = status)).await;
        }
    })
    .await;
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [].into());
    assert_eq!(seqs(&*fixture.store(), saga(1)).await, [1, 2]);
}

/// A log's times never decrease, even if the clock was set back.
pub async fn an_adopted_log_does_not_go_back_in_time(fixture: &dyn Fixture) {
    let ahead = fixture.now().plus(Duration::from_secs(86_400));
    let epoch = two_lives(fixture, async |store, dead| apply(store, owned(saga(1), ahead, dead)).await).await;
    adopt(fixture, epoch, &[deploy()], 10).await;
    let log = fixture.store().log(saga(1), 0, 10).await.unwrap();
    assert_eq!(log.len(), 2);
    assert!(log[1].at >= log[0].at, "{:?} after {:?}", log[1].at, log[0].at);
}

/// The next due time considers only definitions of this node.
pub async fn the_next_due_time_is_that_of_a_saga_the_node_can_run(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let due = |seconds| Some(now.plus(Duration::from_secs(seconds)));
    assert_eq!(store.next_wake(&[deploy()]).await.unwrap(), None);
    let epoch = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, epoch)).await;
    apply(&*store, started(saga(2), now)).await;
    assert_eq!(store.next_wake(&[deploy()]).await.unwrap(), None);
    for (number, seconds, name) in [(3, 30, "deploy"), (4, 20, "deploy"), (5, 10, "refund")] {
        let commit = started_with(saga(number), now, |row| {
            row.definition = name.into();
            row.wake_at = due(seconds);
        });
        apply(&*store, commit).await;
    }
    assert_eq!(store.next_wake(&[deploy()]).await.unwrap(), due(20));
    assert_eq!(store.next_wake(&[deploy(), known("refund", 1)]).await.unwrap(), due(10));
    assert_eq!(store.next_wake(&[known("refund", 2)]).await.unwrap(), None);
    assert_eq!(store.next_wake(&[]).await.unwrap(), None);
}

/// A leaving node releases its sagas, due at once, and changes nothing else.
pub async fn a_leaving_nodes_sagas_are_due_at_once(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let leaving = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, leaving)).await;
    apply(&*store, owned(saga(2), now, leaving)).await;
    apply(&*store, ended(saga(2), 2, now)).await;
    apply(&*store, started(saga(3), now)).await;
    store.leave(leaving).await.unwrap();
    let row = loaded(&*store, saga(1)).await.summary;
    assert_eq!(row.owner, None);
    assert!(row.wake_at.is_some());
    assert_eq!(seqs(&*store, saga(1)).await, [1], "nobody has adopted it yet");
    let epoch = store.join(&successor()).await.unwrap();
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [saga(1)].into());
}

/// A new process adopts the sagas of the previous one.
pub async fn the_next_process_takes_up_what_was_left(fixture: &dyn Fixture) {
    let now = fixture.now();
    let dead = fixture.store().join(&node()).await.unwrap();
    apply(&*fixture.store(), owned(saga(1), now, dead)).await;
    fixture.reopen().await;
    fixture.advance(LEASE + A_MOMENT).await;
    let epoch = fixture.store().join(&successor()).await.unwrap();
    assert_eq!(adopt(fixture, epoch, &[deploy()], 10).await, [saga(1)].into());
}

/// A node that publishes adoptions writes the message with the event, after earlier messages of the saga.
pub async fn an_announced_adoption_is_told_with_it(fixture: &dyn Fixture) {
    let now = fixture.now();
    let dying = async |store: &dyn Store, dead| {
        apply(store, owned(saga(1), now, dead)).await;
        apply(store, owned(saga(2), now, dead)).await;
        apply(store, ended(saga(2), 2, now)).await;
    };
    let epoch = two_lives(fixture, dying).await;
    let store = fixture.store();
    let node = Node { announced: Announced::matching(["saga.adopted"]).unwrap(), ..successor() };
    let adopted = store.adopt(&node, epoch, &[deploy()], fixture.now(), 10).await.unwrap().sagas;
    assert_eq!(adopted, [AdoptedSaga { id: saga(1), seq: Some(2) }]);
    let said = claim_messages(&*store, 10).await;
    let [told] = &said[..] else { panic!("{said:?}") };
    let message = &told.message;
    assert_eq!(message.topic, SAGAS);
    assert_eq!(message.idempotency_key, format!("{}:2", saga(1)));
    assert_eq!(message.ordering_key, Some(saga(1).to_string()));
    let said: serde_json::Value = message.payload.decode().unwrap();
    assert_eq!((&said["type"], &said["seq"]), (&"saga.adopted".into(), &2.into()));
    assert_eq!((&said["definition"], &said["node"]), (&"deploy".into(), &"b".into()));
    assert!(store.adopt(&node, epoch, &[deploy()], fixture.now(), 10).await.unwrap().sagas.is_empty());
    assert!(claim_messages(&*store, 10).await.is_empty(), "what is not taken over is not told");
}
