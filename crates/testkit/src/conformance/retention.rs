//! Retention of messages and keys.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::store::Store;
use backstitch::store::outbox::{Listing, Published, REMOVED, Report, Retried, Status};
use backstitch::store::retention::{Key, KeyName, OldMessage};
use backstitch_kernel::idempotency::Digest;

use super::Fixture;
use super::make::{A_MOMENT, claim_messages};
use super::messages::{aborted, claim_one, publication, publish, published, report};

const HOUR: Duration = Duration::from_secs(3600);
const SENT: Duration = HOUR;
const ABORTED: Duration = HOUR.saturating_mul(2);
const KEYS: Duration = HOUR.saturating_mul(3);

/// The numbers of deleted messages and keys.
async fn prune(fixture: &dyn Fixture, limit: usize) -> (u64, u64) {
    let store = fixture.store();
    let mut messages = 0;
    for (status, age) in [(Status::Succeeded, SENT), (Status::Aborted, ABORTED)] {
        let old = old(&*store, status, age, limit).await;
        messages += store.remove_messages(&old).await.unwrap();
    }
    let keys = keys(&*store, limit).await;
    (messages, store.remove_keys(&keys).await.unwrap())
}

/// The names of keys that may be deleted.
async fn keys(store: &dyn Store, limit: usize) -> Vec<KeyName> {
    store.old_keys(KEYS, None, limit).await.unwrap().old.into_iter().map(|key| key.name).collect()
}

/// The numbers of messages that may be deleted.
async fn old(store: &dyn Store, status: Status, age: Duration, limit: usize) -> Vec<i64> {
    let page = store.old_messages(status, age, None, None, limit).await.unwrap();
    page.old.iter().map(|message| message.id).collect()
}

fn pruned(messages: u64, keys: u64) -> (u64, u64) {
    (messages, keys)
}

/// The numbers of all messages, oldest first.
async fn numbers(fixture: &dyn Fixture) -> Vec<i64> {
    let found = fixture.store().messages(&Listing::default(), 1000).await.unwrap();
    found.iter().rev().map(|kept| kept.id).collect()
}

async fn sent(fixture: &dyn Fixture, key: &str) -> i64 {
    let id = published(fixture, publication(key, 1)).await;
    report(fixture, &claim_one(fixture).await, Report::Delivered(None)).await;
    id
}

/// Each kind at its age: sent messages, aborted messages, and keys last.
pub async fn what_is_over_is_removed_at_its_time(fixture: &dyn Fixture) {
    let (arrived, given_up) = (sent(fixture, "k1").await, aborted(fixture, "k2").await);
    fixture.advance(HOUR.saturating_sub(A_MOMENT)).await;
    assert_eq!(prune(fixture, 10).await, pruned(0, 0));
    assert_eq!(numbers(fixture).await, [arrived, given_up]);
    fixture.advance(2 * A_MOMENT).await;
    assert_eq!(prune(fixture, 10).await, pruned(1, 0));
    assert_eq!(numbers(fixture).await, [given_up]);
    fixture.advance(HOUR).await;
    assert_eq!(prune(fixture, 10).await, pruned(1, 0));
    fixture.advance(HOUR).await;
    assert_eq!(prune(fixture, 10).await, pruned(0, 2));
    assert_eq!(prune(fixture, 10).await, pruned(0, 0));
}

/// While the key exists a repeated request is recognised; afterwards it is new and has a new number.
pub async fn a_key_outlives_its_message_and_can_then_be_used_anew(fixture: &dyn Fixture) {
    let first = sent(fixture, "k1").await;
    let at = fixture.now();
    fixture.advance(2 * HOUR).await;
    assert_eq!(prune(fixture, 10).await, pruned(1, 0));
    assert_eq!(publish(fixture, &[publication("k1", 1)]).await, [Published::Replay(REMOVED)]);
    let conflict = Published::Conflict { id: REMOVED, digest: Digest([1; 32]), at };
    assert_eq!(publish(fixture, &[publication("k1", 2)]).await, [conflict]);
    fixture.advance(2 * HOUR).await;
    assert_eq!(prune(fixture, 10).await, pruned(0, 1));
    let second = published(fixture, publication("k1", 2)).await;
    assert!(second > first, "no number is given twice");
}

/// Unsettled messages and their keys are never deleted.
pub async fn what_is_not_over_is_never_removed(fixture: &dyn Fixture) {
    let failed = published(fixture, publication("k1", 1)).await;
    let error = backstitch::sink::Undelivered::new("http_503", "not now");
    report(fixture, &claim_one(fixture).await, Report::Retry { after: 100 * HOUR, error }).await;
    let sending = published(fixture, publication("k2", 1)).await;
    claim_one(fixture).await;
    let waiting = published(fixture, publication("k3", 1)).await;
    fixture.advance(10 * HOUR).await;
    assert_eq!(prune(fixture, 10).await, pruned(0, 0));
    assert_eq!(numbers(fixture).await, [failed, sending, waiting]);
    assert_eq!(publish(fixture, &[publication("k3", 1)]).await, [Published::Replay(waiting)]);
}

/// An aborted message stays while its retry is unsettled, and the retry as long as the message: a repeated retry
/// request finds
/// it.
pub async fn a_retry_and_what_it_stands_for_go_in_their_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = aborted(fixture, "k1").await;
    let Retried::Accepted(retry) = store.retry_message(first, fixture.now()).await.unwrap() else { panic!() };
    fixture.advance(10 * HOUR).await;
    assert_eq!(prune(fixture, 10).await, pruned(0, 0), "the retry is not over");
    report(fixture, &claim_one(fixture).await, Report::Delivered(None)).await;
    assert_eq!(prune(fixture, 1).await, pruned(1, 0));
    assert_eq!(numbers(fixture).await, [retry]);
    fixture.advance(HOUR + A_MOMENT).await;
    assert_eq!(prune(fixture, 10).await, pruned(1, 1));

    let first = aborted(fixture, "k2").await;
    let Retried::Accepted(retry) = store.retry_message(first, fixture.now()).await.unwrap() else { panic!() };
    report(fixture, &claim_one(fixture).await, Report::Delivered(None)).await;
    fixture.advance(HOUR + A_MOMENT).await;
    assert_eq!(prune(fixture, 10).await, pruned(0, 0), "what it stands for is still kept");
    assert_eq!(store.retry_message(first, fixture.now()).await.unwrap(), Retried::Replay(retry));
}

/// Deletion is in batches, oldest first.
pub async fn old_messages_are_removed_in_batches(fixture: &dyn Fixture) {
    let mut all = Vec::new();
    for nth in 0..5 {
        all.push(sent(fixture, &format!("k{nth}")).await);
        fixture.advance(A_MOMENT).await;
    }
    fixture.advance(HOUR).await;
    assert_eq!(prune(fixture, 2).await, pruned(2, 0));
    assert_eq!(numbers(fixture).await, all[2..]);
    assert_eq!(prune(fixture, 2).await, pruned(2, 0));
    assert_eq!(prune(fixture, 2).await, pruned(1, 0));
    fixture.advance(3 * HOUR).await;
    assert_eq!(prune(fixture, 4).await, pruned(0, 4));
    assert_eq!(prune(fixture, 4).await, pruned(0, 1));
}

/// A scan continues after the last position, past messages that stay, and reports when nothing older is left.
pub async fn a_walk_goes_on_past_messages_that_stay(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut all = Vec::new();
    for nth in 0..5 {
        all.push(sent(fixture, &format!("k{nth}")).await);
    }
    fixture.advance(HOUR + A_MOMENT).await;
    let young = sent(fixture, "young").await;
    let look = async |besides, after| {
        let page = store.old_messages(Status::Succeeded, SENT, besides, after, 2).await.unwrap();
        (page.old.iter().map(|message| message.id).collect::<Vec<_>>(), page.next)
    };
    let meant = store.message(young).await.unwrap().unwrap().message.topic;
    for besides in [None, Some(&*meant)] {
        let going = |ids: &[i64]| if besides.is_none() { ids.to_vec() } else { Vec::new() };
        assert_eq!(look(besides, None).await, (going(&all[..2]), Some(all[1])));
        assert_eq!(look(besides, Some(all[1])).await, (going(&all[2..4]), Some(all[3])));
        assert_eq!(look(besides, Some(all[3])).await, (going(&all[4..]), None), "the last one is young");
    }
}

/// The same for keys: keys of kept messages are passed once per scan, also those of the same time.
pub async fn a_walk_goes_on_past_keys_that_stay(fixture: &dyn Fixture) {
    let store = fixture.store();
    let batch: Vec<_> = (0..5).map(|nth| publication(&format!("k{nth}"), 1)).collect();
    publish(fixture, &batch).await;
    fixture.advance(KEYS + A_MOMENT).await;
    let look = async |after: Option<&KeyName>| {
        let page = store.old_keys(KEYS, after, 2).await.unwrap();
        (page.old.into_iter().map(|key| key.name.key).collect::<Vec<_>>(), page.next)
    };
    let mut next = None;
    for reached in ["k1", "k3"] {
        let (going, behind) = look(next.as_ref()).await;
        assert_eq!((going, &*behind.as_ref().unwrap().key), (Vec::new(), reached), "their messages wait");
        next = behind;
    }
    assert_eq!(look(next.as_ref()).await, (Vec::new(), None));

    for outgoing in claim_messages(&*store, 10).await {
        report(fixture, &outgoing, Report::Delivered(None)).await;
    }
    fixture.advance(HOUR + A_MOMENT).await;
    let messages = old(&*store, Status::Succeeded, SENT, 10).await;
    assert_eq!(store.remove_messages(&messages).await.unwrap(), 5);
    let (mut walked, mut next) = (Vec::new(), None);
    loop {
        let (going, behind) = look(next.as_ref()).await;
        walked.extend(going);
        next = behind;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(walked, ["k0", "k1", "k2", "k3", "k4"]);
}

/// An excluded topic stays, and each message reports its size.
pub async fn a_topic_that_is_not_meant_stays(fixture: &dyn Fixture) {
    let id = sent(fixture, "k1").await;
    let message = fixture.store().message(id).await.unwrap().unwrap().message;
    fixture.advance(HOUR + A_MOMENT).await;
    let store = fixture.store();
    let old = async |besides: &str| {
        store.old_messages(Status::Succeeded, SENT, Some(besides), None, 10).await.unwrap().old
    };
    assert_eq!(old(&message.topic).await, []);
    let bytes = message.payload.as_str().len() as u64;
    assert_eq!(old("another").await, [OldMessage { id, bytes }]);
}

/// A message that is retried between scan and deletion stays.
pub async fn a_message_that_is_asked_for_again_meanwhile_stays(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = aborted(fixture, "k1").await;
    fixture.advance(ABORTED + A_MOMENT).await;
    let old = old(&*store, Status::Aborted, ABORTED, 10).await;
    assert_eq!(old, [first]);
    let Retried::Accepted(retry) = store.retry_message(first, fixture.now()).await.unwrap() else { panic!() };
    assert_eq!(store.remove_messages(&old).await.unwrap(), 0);
    assert_eq!(numbers(fixture).await, [first, retry]);
}

/// A key that is used again between scan and deletion stays.
pub async fn a_key_that_is_used_anew_meanwhile_stays(fixture: &dyn Fixture) {
    let store = fixture.store();
    sent(fixture, "k1").await;
    fixture.advance(KEYS + A_MOMENT).await;
    let messages = old(&*store, Status::Succeeded, SENT, 10).await;
    assert_eq!(store.remove_messages(&messages).await.unwrap(), 1);
    let page = store.old_keys(KEYS, None, 10).await.unwrap();
    let kept: Vec<&Key> = page.old.iter().map(|key| key.kept.as_ref().unwrap()).collect();
    assert_eq!((kept.len(), &*kept[0].key, kept[0].digest), (1, "k1", Digest([1; 32])));
    let keys = keys(&*store, 10).await;
    assert_eq!(store.remove_keys(&keys).await.unwrap(), 1);
    let again = published(fixture, publication("k1", 2)).await;
    assert_eq!(store.remove_keys(&keys).await.unwrap(), 0);
    assert_eq!(publish(fixture, &[publication("k1", 2)]).await, [Published::Replay(again)]);
}
