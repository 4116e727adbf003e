//! Messages that are asked for: written once with their key, settled with it, listed, and sent again when asked.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::sink::Undelivered;
use backstitch::store::Commit;
use backstitch::store::outbox::{
    Expired, Kept, Listing, NewMessage, Outgoing, Publication, Published, Report, Retried, Sent, Share,
    Status,
};
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::{Payload, Timestamp};

use super::Fixture;
use super::make::{LEASE, apply, claim_messages, message, saga, started};

pub(super) fn publication(key: &str, digest: u8) -> Publication {
    Publication {
        message: message(key),
        digest: Digest([digest; 32]),
        expires_in: None,
        ordering_scope: None,
    }
}

pub(super) async fn publish(fixture: &dyn Fixture, batch: &[Publication]) -> Vec<Published> {
    fixture.store().publish(batch, fixture.now()).await.unwrap()
}

/// Publishes what must be new.
pub(super) async fn published(fixture: &dyn Fixture, publication: Publication) -> i64 {
    match publish(fixture, &[publication]).await.as_slice() {
        [Published::Accepted(id)] => *id,
        other => panic!("{other:?}"),
    }
}

async fn kept(fixture: &dyn Fixture, id: i64) -> Kept {
    fixture.store().message(id).await.unwrap().unwrap()
}

pub(super) async fn claim_one(fixture: &dyn Fixture) -> Outgoing {
    let mut claimed = claim_messages(&*fixture.store(), 10).await;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

pub(super) async fn report(fixture: &dyn Fixture, outgoing: &Outgoing, report: Report) {
    let sent = Sent { id: outgoing.id, lock: outgoing.lock, report };
    fixture.store().settle_outbox(&[sent]).await.unwrap();
}

fn error() -> Undelivered {
    Undelivered::new("http_503", "the broker is down")
}

/// Publishes, sends and gives it up.
pub(super) async fn aborted(fixture: &dyn Fixture, key: &str) -> i64 {
    let id = published(fixture, publication(key, 1)).await;
    report(fixture, &claim_one(fixture).await, Report::Aborted(error())).await;
    id
}

/// The same key and digest is the same message; another digest is refused with the first one.
pub async fn a_key_is_taken_once(fixture: &dyn Fixture) {
    let first = fixture.now();
    let id = published(fixture, publication("k1", 1)).await;
    fixture.advance(Duration::from_secs(3)).await;
    assert_eq!(publish(fixture, &[publication("k1", 1)]).await, [Published::Replay(id)]);
    let conflict = Published::Conflict { id, digest: Digest([1; 32]), at: first };
    assert_eq!(publish(fixture, &[publication("k1", 2)]).await, [conflict]);
    assert_eq!(claim_messages(&*fixture.store(), 10).await.len(), 1);
}

/// Each of a batch is judged on its own, the first of two with the same key first.
pub async fn a_batch_is_judged_one_by_one(fixture: &dyn Fixture) {
    let id = published(fixture, publication("k1", 1)).await;
    let batch = [
        publication("k2", 1),
        publication("k1", 1),
        publication("k2", 1),
        publication("k2", 9),
        publication("k3", 1),
    ];
    let answers = publish(fixture, &batch).await;
    let [Published::Accepted(second), Published::Replay(first), Published::Replay(again), conflict, third] =
        answers.as_slice()
    else {
        panic!("{answers:?}");
    };
    assert_eq!((first, again), (&id, second));
    assert!(matches!(conflict, Published::Conflict { id, .. } if id == second));
    assert!(matches!(third, Published::Accepted(third) if third > second));
}

/// A key under which the engine itself said something is not taken over.
pub async fn a_key_of_the_engines_own_is_refused(fixture: &dyn Fixture) {
    let said = Commit { messages: vec![message("k1")], ..started(saga(1), fixture.now()) };
    apply(&*fixture.store(), said).await;
    let refused = publish(fixture, &[publication("k1", 1), publication("k2", 1)]).await;
    assert!(matches!(&refused[0], Published::Refused(why) if why.contains("use another")), "{refused:?}");
    assert!(matches!(refused[1], Published::Accepted(_)));
}

/// Everything about a message can be read, before, while and after it is sent.
pub async fn a_message_is_read_as_it_stands(fixture: &dyn Fixture) {
    let at = fixture.now();
    let expires_at = Some(at.plus(Duration::from_secs(3600)));
    let ordering_key = Some("o".to_owned());
    let written = NewMessage { expires_at, ordering_key, ..message("k1") };
    let id = published(
        fixture,
        Publication {
            message: written.clone(),
            digest: Digest([7; 32]),
            expires_in: None,
            ordering_scope: None,
        },
    )
    .await;
    let found = kept(fixture, id).await;
    assert_eq!((&found.message, found.digest), (&written, Some(Digest([7; 32]))));
    assert_eq!((found.status, found.attempts, found.in_doubt), (Status::Pending, 0, false));
    assert_eq!((found.created_at, found.updated_at), (at, at));
    assert!(found.due_at.is_some() && found.locked_by.is_none() && found.locked_at.is_none());
    assert_eq!(fixture.store().message_of(&written.topic, "k1").await.unwrap().as_ref(), Some(&found));

    let outgoing = claim_one(fixture).await;
    let sending = kept(fixture, id).await;
    assert_eq!((sending.status, sending.locked_by.as_deref()), (Status::Sending, Some("tester")));
    assert!(sending.locked_at.is_some() && sending.due_at.is_none());

    let retry = Report::Retry { after: Duration::ZERO, error: error() };
    report(fixture, &outgoing, retry).await;
    let failed = kept(fixture, id).await;
    assert_eq!((failed.status, failed.attempts), (Status::Failed, 1));
    assert_eq!((failed.last_error, failed.locked_by), (Some(error()), None));

    fixture.advance(Duration::from_secs(1)).await;
    let answer = Payload::parse(r#"{"seq":1}"#).unwrap();
    report(fixture, &claim_one(fixture).await, Report::Delivered(Some(answer.clone()))).await;
    let over = kept(fixture, id).await;
    assert_eq!((over.status, over.attempts, over.result), (Status::Succeeded, 2, Some(answer)));
    assert_eq!((over.due_at, over.locked_at), (None, None));
    assert_eq!(fixture.store().message(id + 1000).await.unwrap(), None);
    assert_eq!(fixture.store().message_of(&written.topic, "k2").await.unwrap(), None);
}

/// What was taken and not sent is there as before, at no cost.
pub async fn a_message_that_is_given_back_is_due_at_once(fixture: &dyn Fixture) {
    let id = published(fixture, publication("k1", 1)).await;
    let first = claim_one(fixture).await;
    report(fixture, &first, Report::GivenBack).await;
    assert_eq!((kept(fixture, id).await.status, kept(fixture, id).await.attempts), (Status::Pending, 0));
    let second = claim_one(fixture).await;
    assert!(second.lock > first.lock && !second.in_doubt);
    report(fixture, &second, Report::Retry { after: Duration::ZERO, error: error() }).await;
    fixture.advance(Duration::from_secs(1)).await;
    report(fixture, &claim_one(fixture).await, Report::GivenBack).await;
    assert_eq!((kept(fixture, id).await.status, kept(fixture, id).await.attempts), (Status::Failed, 1));
}

/// One that is not sent in time is given up, be it waiting or behind others; one on its way is not.
pub async fn a_message_that_is_too_old_is_given_up(fixture: &dyn Fixture) {
    let expires_at = Some(fixture.now().plus(Duration::from_secs(5)));
    let ordered = |key: &str, expires_at: Option<Timestamp>| {
        let ordering_key = Some("o".to_owned());
        let message = NewMessage { ordering_key, expires_at, ..message(key) };
        Publication { message, digest: Digest([1; 32]), expires_in: None, ordering_scope: None }
    };
    let batch = [ordered("k1", expires_at), ordered("k2", expires_at), ordered("k3", None)];
    let [first, second, third] = publish(fixture, &batch).await.try_into().unwrap();
    let ids = [first, second, third].map(|published| match published {
        Published::Accepted(id) => id,
        other => panic!("{other:?}"),
    });
    let on_its_way = claim_one(fixture).await;
    fixture.advance(Duration::from_secs(5)).await;
    let rescued = fixture.store().rescue_outbox(10).await.unwrap();
    let given_up = Expired {
        topic: message("k2").topic,
        idempotency_key: "k2".to_owned(),
        attempts: 0,
        uncounted: false,
    };
    assert_eq!((rescued.expired, rescued.abandoned), (vec![given_up], 0));
    let expired = kept(fixture, ids[1]).await;
    assert_eq!((expired.status, expired.attempts), (Status::Aborted, 0));
    assert_eq!(expired.last_error.unwrap().code, "EXPIRED");
    report(fixture, &on_its_way, Report::Delivered(None)).await;
    assert_eq!(claim_one(fixture).await.id, ids[2], "what was behind both goes on");
}

/// A message that is too old is not handed out, even before anybody gave it up.
pub async fn a_message_that_is_too_old_is_not_claimed(fixture: &dyn Fixture) {
    let expires_at = Some(fixture.now().plus(Duration::from_secs(5)));
    let message = NewMessage { expires_at, ..message("k1") };
    published(
        fixture,
        Publication {
            message: message.clone(),
            digest: Digest([1; 32]),
            expires_in: None,
            ordering_scope: None,
        },
    )
    .await;
    fixture.advance(Duration::from_secs(5)).await;
    let share = Share { topic: message.topic, limit: 10, lease: LEASE };
    assert!(fixture.store().claim_outbox(&[share], "tester").await.unwrap().is_empty());
}

/// A wait goes no further than the message's own time, and by the store's clock; one that has no time waits all of it.
pub async fn a_wait_ends_when_the_message_expires(fixture: &dyn Fixture) {
    let later = |by: u64| fixture.now().plus(Duration::from_secs(by));
    let (soon, late) = (later(5), later(100));
    for (key, expires_at, due_at) in
        [("k1", Some(soon), soon), ("k2", Some(late), later(60)), ("k3", None, later(60))]
    {
        let message = NewMessage { expires_at, ..message(key) };
        let id = published(
            fixture,
            Publication { message, digest: Digest([1; 32]), expires_in: None, ordering_scope: None },
        )
        .await;
        let after = Duration::from_secs(60);
        report(fixture, &claim_one(fixture).await, Report::Retry { after, error: error() }).await;
        assert_eq!(kept(fixture, id).await.due_at, Some(due_at), "{key}");
    }
    let message = NewMessage { expires_at: Some(soon), ..message("k4") };
    let id = published(
        fixture,
        Publication { message, digest: Digest([1; 32]), expires_in: None, ordering_scope: None },
    )
    .await;
    let outgoing = claim_one(fixture).await;
    fixture.advance(Duration::from_secs(7)).await;
    let after = Duration::from_secs(60);
    report(fixture, &outgoing, Report::Retry { after, error: error() }).await;
    assert_eq!(kept(fixture, id).await.due_at, Some(fixture.now()), "its time is over already");
}

/// What is published is counted by its publisher; of what sagas say, the first who claims it knows that nobody has, and so
/// does whoever gives up what nobody ever had.
pub async fn what_its_writer_has_not_counted_is_counted_by_whoever_meets_it_first(fixture: &dyn Fixture) {
    let expires_at = Some(fixture.now().plus(LEASE * 3));
    let late = |key: &str| NewMessage { expires_at, ..message(key) };
    published(
        fixture,
        Publication { message: late("p1"), digest: Digest([1; 32]), expires_in: None, ordering_scope: None },
    )
    .await;
    let messages = vec![late("s1"), NewMessage { topic: "elsewhere".to_owned(), ..late("s2") }];
    apply(&*fixture.store(), Commit { messages, ..started(saga(1), fixture.now()) }).await;
    let share = Share { topic: message("").topic, limit: 10, lease: LEASE };
    let mut uncounted = Vec::new();
    for round in 0..2 {
        let claimed = fixture.store().claim_outbox(std::slice::from_ref(&share), "tester").await.unwrap();
        assert_eq!(claimed.len(), 2, "round {round}");
        uncounted.extend(claimed.into_iter().filter(|it| it.uncounted).map(|it| it.message.idempotency_key));
        fixture.advance(LEASE).await;
        assert_eq!(fixture.store().rescue_outbox(10).await.unwrap().abandoned, 2);
    }
    assert_eq!(uncounted, ["s1"], "once");
    fixture.advance(LEASE).await;
    let rescued = fixture.store().rescue_outbox(10).await.unwrap();
    let uncounted: Vec<_> = rescued.expired.iter().filter(|it| it.uncounted).map(|it| &*it.topic).collect();
    assert_eq!((rescued.expired.len(), uncounted), (3, vec!["elsewhere"]));
}

/// Asked for twice, an aborted message is written anew once, with a key that the ledger waits for again.
pub async fn an_aborted_message_is_sent_again_as_a_new_one(fixture: &dyn Fixture) {
    let store = fixture.store();
    let id = aborted(fixture, "k1").await;
    let at = fixture.now();
    let Retried::Accepted(new) = store.retry_message(id, at).await.unwrap() else { panic!() };
    assert_eq!(store.retry_message(id, at).await.unwrap(), Retried::Replay(new));
    assert_eq!(store.retry_message(new, at).await.unwrap(), Retried::NotAborted(Status::Pending));
    assert_eq!(store.retry_message(new + 1000, at).await.unwrap(), Retried::Unknown);
    let (old, again) = (kept(fixture, id).await, kept(fixture, new).await);
    assert_eq!((old.status, again.status, again.retry_of), (Status::Aborted, Status::Pending, Some(id)));
    assert_eq!((&again.message, again.digest), (&old.message, old.digest));
    assert_eq!(publish(fixture, &[publication("k1", 1)]).await, [Published::Replay(new)]);
    let outgoing = claim_one(fixture).await;
    assert_eq!((outgoing.id, outgoing.attempts), (new, 0));
    report(fixture, &outgoing, Report::Aborted(error())).await;
    let Retried::Accepted(third) = store.retry_message(new, at).await.unwrap() else { panic!() };
    assert_eq!(store.message_of(&old.message.topic, "k1").await.unwrap().unwrap().id, third, "chains work");
}

/// Lists are newest first, by status and topic, page by page.
pub async fn messages_are_listed_newest_first(fixture: &dyn Fixture) {
    let elsewhere = NewMessage { topic: "refunds".to_owned(), ..message("k3") };
    let gone = aborted(fixture, "k1").await;
    let second = published(fixture, publication("k2", 1)).await;
    let third = published(
        fixture,
        Publication { message: elsewhere, digest: Digest([1; 32]), expires_in: None, ordering_scope: None },
    )
    .await;
    let list = async |listing: Listing, limit: usize| {
        let found = fixture.store().messages(&listing, limit).await.unwrap();
        found.into_iter().map(|kept| kept.id).collect::<Vec<i64>>()
    };
    let all = Listing::default();
    assert_eq!(list(all.clone(), 10).await, [third, second, gone]);
    assert_eq!(list(all.clone(), 2).await, [third, second]);
    assert_eq!(list(Listing { before: Some(second), ..all.clone() }, 2).await, [gone]);
    assert_eq!(list(Listing { status: Some(Status::Aborted), ..all.clone() }, 10).await, [gone]);
    let topic = Some("refunds".to_owned());
    assert_eq!(list(Listing { topic: topic.clone(), ..all.clone() }, 10).await, [third]);
    let none = Listing { topic, status: Some(Status::Aborted), before: Some(third) };
    assert!(list(none, 10).await.is_empty());
    assert_eq!(
        claim_messages(&*fixture.store(), 10).await.len(),
        2,
        "the second and the third are on their way"
    );
    let fourth = published(fixture, publication("k4", 1)).await;
    let topic = Listing { topic: Some(message("k4").topic), ..all };
    assert_eq!(list(topic.clone(), 10).await, [fourth, second, gone], "whatever became of them");
    assert_eq!(list(topic.clone(), 2).await, [fourth, second]);
    assert_eq!(list(Listing { before: Some(fourth), ..topic.clone() }, 1).await, [second]);
    for (status, one) in [(Status::Sending, second), (Status::Pending, fourth), (Status::Aborted, gone)] {
        assert_eq!(list(Listing { status: Some(status), ..topic.clone() }, 10).await, [one]);
    }
}

/// Each topic gives its own share, and none of those that are not asked for.
pub async fn each_topic_gives_its_own_share(fixture: &dyn Fixture) {
    let elsewhere = NewMessage { topic: "refunds".to_owned(), ..message("r1") };
    let third = NewMessage { topic: "untouched".to_owned(), ..message("u1") };
    let others = [elsewhere, third].map(|message| Publication {
        message,
        digest: Digest([1; 32]),
        expires_in: None,
        ordering_scope: None,
    });
    let mut batch: Vec<Publication> = (0..5).map(|nth| publication(&format!("k{nth}"), 1)).collect();
    batch.extend(others);
    publish(fixture, &batch).await;
    let share = |topic: &str, limit: usize| Share { topic: topic.to_owned(), limit, lease: LEASE };
    let shares = [share("deployments", 3), share("refunds", 3)];
    let claimed = fixture.store().claim_outbox(&shares, "tester").await.unwrap();
    let keys: Vec<&str> = claimed.iter().map(|outgoing| outgoing.message.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["k0", "k1", "k2", "r1"]);
    let topics: Vec<String> =
        fixture.store().waiting_topics().await.unwrap().into_iter().map(|waiting| waiting.topic).collect();
    assert_eq!(topics, ["deployments", "untouched"]);
}

/// However many wait behind the first of their ordering key, they go one after the other, each key on its own.
pub async fn a_long_queue_behind_one_key_keeps_its_order(fixture: &dyn Fixture) {
    let ordered = |key: String, ordering_key: &str| {
        let ordering_key = Some(ordering_key.to_owned());
        Publication {
            message: NewMessage { ordering_key, ..message(&key) },
            digest: Digest([1; 32]),
            expires_in: None,
            ordering_scope: None,
        }
    };
    let mut batch: Vec<Publication> = (0..30).map(|nth| ordered(format!("a{nth:02}"), "a")).collect();
    batch.extend((0..3).map(|nth| ordered(format!("b{nth}"), "b")));
    publish(fixture, &batch).await;
    let mut arrived: Vec<String> = Vec::new();
    // What is met behind others is put aside a few at a time, so that some turns take nothing.
    for _ in 0..200 {
        let claimed = claim_messages(&*fixture.store(), 4).await;
        let mut keys: Vec<_> =
            claimed.iter().map(|outgoing| outgoing.message.ordering_key.as_deref()).collect();
        keys.dedup();
        assert_eq!(keys.len(), claimed.len(), "one of each key at a time");
        for outgoing in &claimed {
            arrived.push(outgoing.message.idempotency_key.clone());
            report(fixture, outgoing, Report::Delivered(None)).await;
        }
        fixture.advance(Duration::from_millis(1)).await;
    }
    let of = |key: char| arrived.iter().filter(|name| name.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!((of('a').len(), of('b').len()), (30, 3));
    assert!(of('a').is_sorted() && of('b').is_sorted(), "{arrived:?}");
}
