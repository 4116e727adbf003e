//! Batches, and sessions that interfere with them.

use std::sync::Arc;

use backstitch::inbox::{Message, Posted};
use backstitch::kernel::idempotency::Digest;
use backstitch::kernel::saga::Event;
use backstitch::store::{Claim, Commit, InboxStore as _, SagaStore as _, Verdict};

use crate::postgres_store::support::{
    end, fresh_store, go_on, log, new_id, now, row, session, start, until, until_blocked, until_blocked_since,
};
use backstitch::store::postgres::PostgresStore;

#[expect(clippy::unnecessary_wraps, reason = "it stands where a decision may have none")]
fn claim(key: &str, body: u8) -> Option<Claim> {
    Some(Claim { scope: "saga/trip".to_owned(), key: key.to_owned(), digest: Digest([body; 32]) })
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_stores_that_race_for_a_fence_one_wins() {
    let (store, address) = fresh_store().await;
    let other = PostgresStore::connect(&address).await.unwrap();
    let sagas: Vec<_> = (0..100).map(|_| new_id()).collect();
    let starts: Vec<_> = sagas.iter().map(|saga| start(*saga)).collect();
    assert_eq!(store.commit(&starts).await.unwrap(), vec![Verdict::Applied; 100]);
    for seq in 3..8 {
        // Requested in opposite orders, written in one.
        let mine: Vec<_> = sagas.iter().map(|saga| go_on(*saga, seq, 1)).collect();
        let theirs: Vec<_> = sagas.iter().rev().map(|saga| go_on(*saga, seq, 2)).collect();
        let (mine, theirs) = tokio::join!(store.commit(&mine), other.commit(&theirs));
        let (mine, theirs) = (mine.unwrap(), theirs.unwrap());
        for (index, saga) in sagas.iter().enumerate() {
            let won = match (&mine[index], &theirs[99 - index]) {
                (Verdict::Applied, Verdict::Fenced) => 1,
                (Verdict::Fenced, Verdict::Applied) => 2,
                both => panic!("{both:?}"),
            };
            let newest = log(&store, *saga).await.pop();
            assert_eq!(newest, Some(Event::StepStarted { step: "book".into(), attempt: won, outside: None }));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skipped_number_and_missing_saga_are_fenced() {
    let (store, _) = fresh_store().await;
    let (there, gone) = (new_id(), new_id());
    let batch = [start(there), go_on(gone, 2, 1), end(new_id(), 5, Some(0))];
    assert_eq!(store.commit(&batch).await.unwrap(), [Verdict::Applied, Verdict::Fenced, Verdict::Fenced]);
    assert_eq!(store.commit(&[go_on(there, 4, 1)]).await.unwrap(), [Verdict::Fenced]);
    assert_eq!(store.commit(&[start(there)]).await.unwrap(), [Verdict::Fenced]);
    assert_eq!(log(&store, gone).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_saga_or_key_in_a_batch_is_decided_in_order() {
    let (store, _) = fresh_store().await;
    let (saga, first, second) = (new_id(), new_id(), new_id());
    let keyed = |saga, body| Commit { claim: claim("k", body), ..start(saga) };
    // The higher id first, because sorting by id would give the key to the wrong saga.
    let batch = [
        start(saga),
        go_on(saga, 3, 1),
        go_on(saga, 3, 2),
        end(saga, 4, Some(0)),
        keyed(second, 1),
        keyed(first, 1),
        keyed(new_id(), 2),
    ];
    let verdicts = store.commit(&batch).await.unwrap();
    let (applied, replayed) = (Verdict::Applied, Verdict::Replay(second));
    let expected = [&applied, &applied, &Verdict::Fenced, &applied, &applied, &replayed];
    assert!(verdicts.iter().take(6).eq(expected), "{verdicts:?}");
    assert!(
        matches!(&verdicts[6], Verdict::Conflict { saga, digest, .. } if *saga == second && digest.0 == [1; 32])
    );
    assert_eq!(log(&store, first).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn unstorable_value_is_refused_alone() {
    let (store, _) = fresh_store().await;
    let mut batch: Vec<Commit> = (0..60).map(|_| start(new_id())).collect();
    row(&mut batch[7]).correlation_id = Some("a\0b".to_owned());
    row(&mut batch[8]).attributes.insert("name\0".to_owned(), "value".to_owned());
    batch[9].claim = claim("k\0", 1);
    // Too large for an index entry and incompressible, so the server refuses it.
    let noise: String = (0..1000).map(|_| new_id().to_string()).collect();
    row(&mut batch[33]).correlation_id = Some(noise.clone());
    batch[34].claim = claim(&noise, 1);
    let verdicts = store.commit(&batch).await.unwrap();
    for (index, verdict) in verdicts.iter().enumerate() {
        if [7, 8, 9, 33, 34].contains(&index) {
            assert!(matches!(verdict, Verdict::Refused(why) if !why.is_empty()), "{index}: {verdict:?}");
            assert_eq!(log(&store, batch[index].saga).await, []);
        } else {
            assert_eq!(*verdict, Verdict::Applied, "{index}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saga_that_is_at_its_end_is_fenced_alone() {
    let (store, _) = fresh_store().await;
    let (over, live) = (new_id(), new_id());
    store.commit(&[start(over), start(live), end(over, 3, Some(0))]).await.unwrap();
    let verdicts = store.commit(&[end(over, 4, None), end(live, 3, Some(0))]).await.unwrap();
    assert_eq!(verdicts, [Verdict::Fenced, Verdict::Applied]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_in_while_the_end_waits_is_seen() {
    let (store, address) = fresh_store().await;
    let (saga, neighbour) = (new_id(), new_id());
    store.commit(&[start(saga), start(neighbour)]).await.unwrap();
    let mut poster = session(&address).await;
    let watcher = session(&address).await;
    let posting = poster.transaction().await.unwrap();
    let post = "with p as (update backstitch.sagas set inbox_seq = inbox_seq + 1 where id = $1 returning *)
        insert into backstitch.saga_inbox (at, saga_id, seq, body)
        select now(), id, inbox_seq, '{\"ask\":\"cancel\",\"note\":\"\"}' from p";
    posting.execute(post, &[&saga.0]).await.unwrap();

    let ending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(&[end(saga, 3, Some(0)), end(neighbour, 3, Some(0))]).await }
    });
    until_blocked(&watcher).await;
    posting.commit().await.unwrap();
    assert_eq!(ending.await.unwrap().unwrap(), [Verdict::InboxChanged, Verdict::Applied]);

    let stored = store.load(&[saga]).await.unwrap().pop().unwrap();
    assert_eq!((stored.log.len(), stored.inbox.len(), stored.inbox_seq), (2, 1, 1));
    let answered = Commit { consume_inbox_through: Some(1), ..end(saga, 3, Some(1)) };
    assert_eq!(store.commit(&[answered]).await.unwrap(), [Verdict::Applied]);
    let ended = store.load(&[saga]).await.unwrap().pop().unwrap();
    assert!(ended.inbox.is_empty());
    let cancel = Message::Cancel { note: "too late".to_owned() };
    assert_eq!(store.post(saga, &cancel, now()).await.unwrap(), Posted::Ended(ended.summary.status));
}

/// The row changed after the statement began, so the server evaluates it again within the statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_does_not_look_at_the_inbox_keeps_its_count() {
    let (store, address) = fresh_store().await;
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    let mut poster = session(&address).await;
    let watcher = session(&address).await;
    let posting = poster.transaction().await.unwrap();
    let post = "update backstitch.sagas set inbox_seq = inbox_seq + 1 where id = $1";
    posting.execute(post, &[&saga.0]).await.unwrap();
    let ending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(&[end(saga, 3, None)]).await }
    });
    until_blocked(&watcher).await;
    posting.commit().await.unwrap();
    assert_eq!(ending.await.unwrap().unwrap(), [Verdict::Applied]);
    let stored = store.load(&[saga]).await.unwrap().pop().unwrap();
    assert_eq!((stored.inbox_seq, stored.summary.owner), (1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn key_in_an_open_transaction_delays_others_briefly() {
    let (store, address) = fresh_store().await;
    let mut slow = session(&address).await;
    let open = slow.transaction().await.unwrap();
    let first = Commit { claim: claim("k", 1), ..start(new_id()) };
    let verdict = store.commit_in(&open, &first).await.unwrap();
    assert_eq!(verdict, Verdict::Applied);

    let mut batch: Vec<Commit> = (0..40).map(|_| start(new_id())).collect();
    batch[11].claim = claim("k", 1);
    let verdicts = store.commit(&batch).await.unwrap();
    for (index, verdict) in verdicts.iter().enumerate() {
        match index {
            11 => assert!(matches!(verdict, Verdict::KeyHeld(_)), "{verdict:?}"),
            _ => assert_eq!(*verdict, Verdict::Applied),
        }
    }
    open.commit().await.unwrap();
    assert_eq!(store.commit(&batch[11..12]).await.unwrap(), [Verdict::Replay(first.saga)]);
}

/// It has taken its key by then, which must be released.
#[tokio::test(flavor = "multi_thread")]
async fn fenced_decision_leaves_its_key_free() {
    let (store, address) = fresh_store().await;
    let (saga, neighbour) = (new_id(), new_id());
    store.commit(&[start(saga), start(neighbour)]).await.unwrap();
    let mut quicker = session(&address).await;
    let watcher = session(&address).await;
    let deciding = quicker.transaction().await.unwrap();
    let first = store.commit_in(&deciding, &go_on(saga, 3, 1)).await.unwrap();
    assert_eq!(first, Verdict::Applied);
    let second = tokio::spawn({
        let store = Arc::clone(&store);
        let keyed = Commit { claim: claim("k", 1), ..go_on(saga, 3, 2) };
        async move { store.commit(&[keyed, go_on(neighbour, 3, 1)]).await }
    });
    until_blocked(&watcher).await;
    deciding.commit().await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), [Verdict::Fenced, Verdict::Applied]);
    let other = Commit { claim: claim("k", 2), ..start(new_id()) };
    assert_eq!(store.commit(&[other]).await.unwrap(), [Verdict::Applied], "the key is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_behind_a_lock_is_written_after_release() {
    let (store, address) = fresh_store().await;
    let saga = new_id();
    store.commit(&[start(saga)]).await.unwrap();
    let mut holder = session(&address).await;
    let held = holder.transaction().await.unwrap();
    held.query("select from backstitch.sagas where id = $1 for update", &[&saga.0]).await.unwrap();
    let ending = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(&[end(saga, 3, Some(0))]).await }
    });
    let watcher = session(&address).await;
    let first = until_blocked_since(&watcher).await;
    // The store stops waiting for a lock after a moment and retries in a new transaction.
    until(async || (until_blocked_since(&watcher).await != first).then_some(())).await;
    held.rollback().await.unwrap();
    assert_eq!(ending.await.unwrap().unwrap(), [Verdict::Applied]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_column_of_a_decision_comes_back() {
    let (store, _) = fresh_store().await;
    let saga = new_id();
    let mut commit = start(saga);
    let given = row(&mut commit);
    given.owner = None;
    given.wake_at = Some(now());
    given.correlation_id = Some("order ünï 7".to_owned());
    given.attributes.insert("city".to_owned(), "Rome".to_owned());
    let given = given.clone();
    assert_eq!(store.commit(std::slice::from_ref(&commit)).await.unwrap(), [Verdict::Applied]);
    let stored = store.load(&[saga]).await.unwrap().pop().unwrap();
    assert_eq!(stored.log, commit.events);
    let row = stored.summary;
    assert_eq!(
        (row.owner, row.wake_at, row.correlation_id, row.created_at, row.updated_at),
        (None, given.wake_at, given.correlation_id, given.created_at, given.created_at)
    );
}
