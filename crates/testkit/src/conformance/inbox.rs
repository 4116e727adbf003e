//! Messages for sagas: none is lost between two owners.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::inbox::{Message, Posted, Received};
use backstitch::store::{Commit, Release, Store, Summary, Verdict};
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Status;

use super::Fixture;
use super::make::{
    LEASE, appended, apply, deploy, ended, loaded, node, owned, saga, seqs, started, started_with, updated,
    verdict,
};

fn cancel() -> Message {
    Message::Cancel { note: "because 'why' not".to_owned() }
}

fn pause() -> Message {
    Message::Pause { note: "lunch".to_owned() }
}

async fn post(fixture: &dyn Fixture, saga: SagaId, message: &Message) -> Posted {
    fixture.store().post(saga, message, fixture.now()).await.unwrap()
}

/// Messages keep their order, numbered from one.
pub async fn messages_wait_in_their_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    apply(&*store, started(saga(1), fixture.now())).await;
    assert_eq!(post(fixture, saga(1), &pause()).await, Posted::Accepted);
    assert_eq!(post(fixture, saga(1), &cancel()).await, Posted::Accepted);
    let stored = loaded(&*store, saga(1)).await;
    let expected = [Received { seq: 1, message: pause() }, Received { seq: 2, message: cancel() }];
    assert_eq!(stored.inbox, expected);
    assert_eq!(stored.inbox_seq, 2);
}

/// A message for an unknown saga is refused.
pub async fn a_message_for_nobody_is_refused(fixture: &dyn Fixture) {
    assert_eq!(post(fixture, saga(1), &cancel()).await, Posted::Unknown);
}

/// A terminal saga accepts no messages.
pub async fn a_message_for_an_ended_saga_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    for (number, status) in [(1, Status::Succeeded), (2, Status::Compensated), (3, Status::Failed)] {
        apply(&*store, started(saga(number), now)).await;
        apply(&*store, updated(saga(number), 2, now, |row| row.status = status)).await;
        assert_eq!(post(fixture, saga(number), &cancel()).await, Posted::Ended(status));
        assert!(loaded(&*store, saga(number)).await.inbox.is_empty());
    }
}

/// A saga neither ends nor is released while a message is unread.
pub async fn an_unseen_message_holds_up_the_end(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    post(fixture, saga(1), &cancel()).await;
    let end = |seen| {
        updated(saga(1), 2, now, move |row| {
            row.status = Status::Succeeded;
            row.inbox_seen = Some(seen);
        })
    };
    assert_eq!(verdict(&*store, end(0)).await, Verdict::InboxChanged);
    assert_eq!(seqs(&*store, saga(1)).await, [1]);
    assert_eq!(loaded(&*store, saga(1)).await.summary.status, Status::Running);
    apply(&*store, end(1)).await;
    assert_eq!(loaded(&*store, saga(1)).await.summary.status, Status::Succeeded);
}

/// A decision that ignores the inbox is not blocked by it.
pub async fn an_unseen_message_holds_up_nothing_else(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    post(fixture, saga(1), &cancel()).await;
    apply(&*store, appended(saga(1), 2, now)).await;
    apply(&*store, updated(saga(1), 3, now, |row| row.paused = true)).await;
}

/// A blocked decision does not affect others.
pub async fn waiting_mail_does_not_disturb_the_neighbours(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    post(fixture, saga(1), &cancel()).await;
    let held_up = updated(saga(1), 2, now, |row| row.inbox_seen = Some(0));
    let batch = [started(saga(2), now), held_up, started(saga(3), now)];
    let expected = [Verdict::Applied, Verdict::InboxChanged, Verdict::Applied];
    assert_eq!(store.commit(&batch).await.unwrap(), expected);
}

/// A decision consumes the messages that caused it; later ones stay.
pub async fn messages_are_consumed_by_the_decision_they_cause(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    for message in [pause(), cancel(), cancel()] {
        post(fixture, saga(1), &message).await;
    }
    apply(&*store, Commit { consume_inbox_through: Some(2), ..appended(saga(1), 2, now) }).await;
    let stored = loaded(&*store, saga(1)).await;
    assert_eq!(stored.inbox, [Received { seq: 3, message: cancel() }]);
    assert_eq!(stored.inbox_seq, 3);
    post(fixture, saga(1), &pause()).await;
    assert_eq!(loaded(&*store, saga(1)).await.inbox_seq, 4, "numbers are never used again");
}

/// A fenced decision consumes nothing.
pub async fn a_fenced_decision_leaves_the_messages_waiting(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    post(fixture, saga(1), &cancel()).await;
    let fenced = Commit { consume_inbox_through: Some(1), ..appended(saga(1), 5, now) };
    assert_eq!(verdict(&*store, fenced).await, Verdict::Fenced);
    assert_eq!(loaded(&*store, saga(1)).await.inbox.len(), 1);
}

/// A node finds which of its own sagas have unread messages.
pub async fn a_node_hears_of_mail_for_its_own_sagas_only(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    let epoch = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, epoch)).await;
    apply(&*store, owned(saga(2), now, epoch)).await;
    apply(&*store, owned(saga(3), now, epoch + 1_000)).await;
    apply(&*store, started(saga(4), now)).await;
    for number in [1, 1, 3, 4] {
        post(fixture, saga(number), &cancel()).await;
    }
    assert_eq!(store.mail(epoch).await.unwrap(), [(saga(1), 2)]);
    apply(&*store, Commit { consume_inbox_through: Some(2), ..appended(saga(1), 2, now) }).await;
    assert!(store.mail(epoch).await.unwrap().is_empty());
}

/// A saga without a decision is released only by its owner, with its messages consumed and nothing else changed, unless
/// a newer message exists.
pub async fn idle_saga_is_released_with_its_messages(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (now, late) = (fixture.now(), fixture.now().plus(Duration::from_secs(3_600)));
    let epoch = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, epoch)).await;
    post(fixture, saga(1), &pause()).await;
    let release = Release { saga: saga(1), epoch, seq: 1, inbox_seen: 1, wake_at: Some(late) };
    let refused = [
        (Release { epoch: epoch + 1_000, ..release }, "another node owns it"),
        (Release { saga: saga(2), seq: 0, inbox_seen: 0, ..release }, "there is no such saga"),
        (Release { inbox_seen: 0, ..release }, "a message is unread"),
    ];
    for (release, why) in refused {
        assert!(!store.release(release).await.unwrap(), "{why}");
    }
    let kept = loaded(&*store, saga(1)).await;
    assert_eq!((kept.summary.owner, kept.inbox.len()), (Some(epoch), 1));
    assert!(store.release(release).await.unwrap());
    let released = loaded(&*store, saga(1)).await;
    assert_eq!(released.summary, Summary { owner: None, wake_at: Some(late), ..kept.summary });
    assert_eq!((released.inbox.len(), released.inbox_seq, released.log), (0, 1, kept.log));
    assert!(!store.release(Release { wake_at: None, ..release }).await.unwrap(), "no node owns it");
}

/// Nor is it released if its log has an event that its owner does not know.
pub async fn saga_with_a_newer_event_is_not_released(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (now, late) = (fixture.now(), fixture.now().plus(Duration::from_secs(3_600)));
    let epoch = store.join(&node()).await.unwrap();
    apply(&*store, owned(saga(1), now, epoch)).await;
    apply(&*store, appended(saga(1), 2, now)).await;
    let release = Release { saga: saga(1), epoch, seq: 2, inbox_seen: 0, wake_at: Some(late) };
    for seq in [0, 1, 3] {
        assert!(!store.release(Release { seq, ..release }).await.unwrap(), "its log ends at 2, not {seq}");
    }
    assert_eq!(loaded(&*store, saga(1)).await.summary.owner, Some(epoch));
    assert!(store.release(release).await.unwrap());
}

/// A message makes an unowned saga due.
pub async fn a_message_makes_an_unowned_saga_due(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (now, late) = (fixture.now(), fixture.now().plus(Duration::from_secs(3_600)));
    apply(&*store, started_with(saga(1), now, |row| row.wake_at = Some(late))).await;
    apply(&*store, started(saga(2), now)).await;
    assert_eq!(store.next_wake(&[deploy()]).await.unwrap(), Some(late));
    let posted_at = fixture.now();
    for number in [1, 2] {
        store.post(saga(number), &cancel(), posted_at).await.unwrap();
    }
    assert_eq!(store.next_wake(&[deploy()]).await.unwrap(), Some(posted_at));
    fixture.advance(LEASE).await;
    let epoch = store.join(&node()).await.unwrap();
    let adopted = store.adopt(&node(), epoch, &[deploy()], fixture.now(), 10).await.unwrap().sagas;
    let mut adopted: Vec<_> = adopted.into_iter().map(|adopted| adopted.id).collect();
    adopted.sort();
    assert_eq!(adopted, [saga(1), saga(2)]);
    assert_eq!(store.mail(epoch).await.unwrap().len(), 2);
}

/// Messages survive the process.
pub async fn messages_wait_for_the_next_process(fixture: &dyn Fixture) {
    apply(&*fixture.store(), started(saga(1), fixture.now())).await;
    post(fixture, saga(1), &cancel()).await;
    fixture.reopen().await;
    assert_eq!(loaded(&*fixture.store(), saga(1)).await.inbox.len(), 1);
}

/// The decision that ends a saga consumes its last message.
pub async fn the_last_message_goes_with_the_end(fixture: &dyn Fixture) {
    let store: std::sync::Arc<dyn Store> = fixture.store();
    let now = fixture.now();
    apply(&*store, started(saga(1), now)).await;
    post(fixture, saga(1), &cancel()).await;
    apply(&*store, Commit { consume_inbox_through: Some(1), ..ended(saga(1), 2, now) }).await;
    assert!(loaded(&*store, saga(1)).await.inbox.is_empty());
}
