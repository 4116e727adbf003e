//! The outbox: what was decided to be said is said at least once, in order where order is asked for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::sink::Undelivered;
use backstitch::store::Commit;
use backstitch::store::outbox::{AGED, NewMessage, Outgoing, Report, Sent, Share};

use super::Fixture;
use super::make::{A_MOMENT, LEASE, appended, apply, claim_messages, message, saga, started};

/// A saga that says this.
async fn said(fixture: &dyn Fixture, messages: Vec<NewMessage>) {
    apply(&*fixture.store(), Commit { messages, ..started(saga(1), fixture.now()) }).await;
}

async fn claim(fixture: &dyn Fixture, limit: usize) -> Vec<Outgoing> {
    claim_messages(&*fixture.store(), limit).await
}

/// The one message there is to send.
async fn claim_one(fixture: &dyn Fixture) -> Outgoing {
    let mut claimed = claim(fixture, 10).await;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

async fn report(fixture: &dyn Fixture, outgoing: &Outgoing, report: Report) {
    let sent = Sent { id: outgoing.id, lock: outgoing.lock, report };
    fixture.store().settle_outbox(&[sent]).await.unwrap();
}

fn error(why: &str) -> Undelivered {
    Undelivered::new("no_ack", why)
}

/// How long it is until the first message of all topics is due.
async fn next_due(fixture: &dyn Fixture) -> Option<Duration> {
    fixture.store().waiting_topics().await.unwrap().into_iter().map(|waiting| waiting.due_in).min()
}

fn keys(claimed: &[Outgoing]) -> Vec<&str> {
    claimed.iter().map(|outgoing| outgoing.message.idempotency_key.as_str()).collect()
}

fn ordered(key: &str, ordering_key: &str) -> NewMessage {
    NewMessage { ordering_key: Some(ordering_key.to_owned()), ..message(key) }
}

/// A sender gets the message as it was written.
pub async fn a_sender_gets_the_message_as_it_was_written(fixture: &dyn Fixture) {
    let written = ordered("k1", "order-1");
    said(fixture, vec![written.clone()]).await;
    let outgoing = claim_one(fixture).await;
    assert_eq!(outgoing.message, written);
    assert_eq!((outgoing.attempts, outgoing.in_doubt), (0, false));
}

/// A claimed message is nobody else's.
pub async fn a_message_is_claimed_by_one_sender_only(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    claim_one(fixture).await;
    assert!(claim(fixture, 10).await.is_empty());
}

/// What is delivered is done with.
pub async fn a_delivered_message_is_never_sent_again(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    let outgoing = claim_one(fixture).await;
    report(fixture, &outgoing, Report::Delivered(None)).await;
    fixture.advance(10 * LEASE).await;
    assert!(claim(fixture, 10).await.is_empty());
    assert_eq!(next_due(fixture).await, None);
}

/// What is given up is done with too.
pub async fn an_aborted_message_is_never_sent_again(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    let outgoing = claim_one(fixture).await;
    report(fixture, &outgoing, Report::Aborted(error("no such topic"))).await;
    fixture.advance(10 * LEASE).await;
    assert!(claim(fixture, 10).await.is_empty());
}

/// What failed is tried again at its time, and its sends are counted.
pub async fn a_failed_message_is_sent_again_at_its_time(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    let first = claim_one(fixture).await;
    let after = Duration::from_secs(5);
    report(fixture, &first, Report::Retry { after, error: error("no ack") }).await;
    assert_eq!(next_due(fixture).await, Some(after));
    assert!(claim(fixture, 10).await.is_empty());
    fixture.advance(Duration::from_secs(3)).await;
    assert_eq!(next_due(fixture).await, Some(Duration::from_secs(2)));
    assert!(claim(fixture, 10).await.is_empty());
    fixture.advance(Duration::from_secs(2)).await;
    assert_eq!(next_due(fixture).await, Some(Duration::ZERO));
    let second = claim_one(fixture).await;
    assert_eq!((second.attempts, second.in_doubt), (1, false));
    assert!(second.lock > first.lock);
    assert_eq!(second.message, first.message);
}

/// A message whose sender never came back is taken over, and may have been sent already.
pub async fn an_abandoned_message_is_taken_over_in_doubt(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    let first = claim_one(fixture).await;
    fixture.advance(LEASE / 2).await;
    assert!(claim(fixture, 10).await.is_empty());
    fixture.advance(LEASE / 2 + A_MOMENT).await;
    let second = claim_one(fixture).await;
    assert!(second.in_doubt);
    assert_eq!(second.attempts, 0, "nobody knows of a finished send");
    assert!(second.lock > first.lock);
}

/// Whoever lost the message to another sender has nothing to say about it any more.
pub async fn a_report_under_an_old_lock_changes_nothing(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    let late = claim_one(fixture).await;
    fixture.advance(LEASE + A_MOMENT).await;
    let newest = claim_one(fixture).await;
    report(fixture, &late, Report::Aborted(error("late"))).await;
    report(fixture, &newest, Report::Retry { after: Duration::ZERO, error: error("no ack") }).await;
    fixture.advance(A_MOMENT).await;
    assert_eq!(claim_one(fixture).await.attempts, 1);
}

/// A report counts once.
pub async fn a_repeated_report_changes_nothing(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    let outgoing = claim_one(fixture).await;
    report(fixture, &outgoing, Report::Delivered(None)).await;
    report(fixture, &outgoing, Report::Retry { after: Duration::ZERO, error: error("late") }).await;
    fixture.advance(10 * LEASE).await;
    assert!(claim(fixture, 10).await.is_empty());
}

/// A key that its topic has seen keeps the first message, and the decision goes through.
pub async fn a_repeated_key_keeps_the_first_message(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = fixture.now();
    said(fixture, vec![message("k1"), message("k1")]).await;
    let other = backstitch_kernel::Payload::parse("2").unwrap();
    let again = NewMessage { payload: other, ..message("k1") };
    apply(&*store, Commit { messages: vec![again], ..appended(saga(1), 2, now) }).await;
    let outgoing = claim_one(fixture).await;
    assert_eq!(outgoing.message, message("k1"));
    report(fixture, &outgoing, Report::Delivered(None)).await;
    apply(&*store, Commit { messages: vec![message("k1")], ..appended(saga(1), 3, now) }).await;
    assert!(claim(fixture, 10).await.is_empty(), "a key is remembered when its message is gone");
}

/// A key belongs to its topic.
pub async fn the_same_key_in_another_topic_is_another_message(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1"), NewMessage { topic: "refunds".to_owned(), ..message("k1") }]).await;
    assert_eq!(claim(fixture, 10).await.len(), 2);
}

/// A sender takes so many at a time, the oldest first, and gets all of them in the end.
pub async fn messages_are_claimed_oldest_first_and_in_batches(fixture: &dyn Fixture) {
    said(fixture, ["k1", "k2", "k3"].map(message).into()).await;
    assert_eq!(keys(&claim(fixture, 2).await), ["k1", "k2"]);
    assert_eq!(keys(&claim(fixture, 2).await), ["k3"]);
    assert!(claim(fixture, 2).await.is_empty());
}

/// Messages with the same ordering key go one after the other, whatever becomes of them.
pub async fn an_ordering_key_lets_one_message_go_at_a_time(fixture: &dyn Fixture) {
    let messages = ["k1", "k2", "k3"].map(|key| ordered(key, "order-1"));
    said(fixture, messages.into_iter().chain([ordered("k4", "order-2"), message("k5")]).collect()).await;
    let claimed = claim(fixture, 10).await;
    assert_eq!(keys(&claimed), ["k1", "k4", "k5"]);
    assert!(claim(fixture, 10).await.is_empty());

    let after = Duration::from_secs(5);
    report(fixture, &claimed[0], Report::Retry { after, error: error("no ack") }).await;
    assert!(claim(fixture, 10).await.is_empty(), "nothing overtakes a retry");
    assert_eq!(next_due(fixture).await, Some(after));
    fixture.advance(Duration::from_secs(5)).await;

    let first = claim_one(fixture).await;
    assert_eq!(first.message.idempotency_key, "k1");
    report(fixture, &first, Report::Delivered(None)).await;
    let second = claim_one(fixture).await;
    assert_eq!(second.message.idempotency_key, "k2");
    report(fixture, &second, Report::Aborted(error("too big"))).await;
    assert_eq!(claim_one(fixture).await.message.idempotency_key, "k3");
}

/// An abandoned message still holds its place in the order.
pub async fn an_abandoned_message_is_not_overtaken(fixture: &dyn Fixture) {
    said(fixture, vec![ordered("k1", "order-1"), ordered("k2", "order-1")]).await;
    claim_one(fixture).await;
    fixture.advance(LEASE + A_MOMENT).await;
    let again = claim_one(fixture).await;
    assert_eq!(again.message.idempotency_key, "k1");
    assert!(again.in_doubt);
}

/// Whoever sends knows when to look again.
pub async fn the_next_due_message_is_known(fixture: &dyn Fixture) {
    assert_eq!(next_due(fixture).await, None);
    said(fixture, vec![message("k1")]).await;
    assert_eq!(next_due(fixture).await, Some(Duration::ZERO));
    fixture.advance(A_MOMENT).await;
    assert_eq!(next_due(fixture).await, Some(Duration::ZERO), "what is overdue is due");
    claim_one(fixture).await;
    assert_eq!(next_due(fixture).await, None, "it is on its way");
}

/// How far behind the outbox is can be told: by the oldest message that is not out, whatever keeps it.
pub async fn the_oldest_message_that_is_not_out_is_known(fixture: &dyn Fixture) {
    let oldest = async || fixture.store().outbox_ages().await.unwrap().oldest;
    assert_eq!(oldest().await, None);
    let first = fixture.now();
    said(fixture, vec![message("k1")]).await;
    fixture.advance(Duration::from_secs(60)).await;
    let second = fixture.now();
    apply(&*fixture.store(), Commit { messages: vec![message("k2")], ..started(saga(2), second) }).await;
    assert_eq!(oldest().await, Some(first));
    let [one, two] = claim(fixture, 10).await.try_into().unwrap();
    assert_eq!(oldest().await, Some(first), "it is on its way");
    report(fixture, &one, Report::Retry { after: Duration::ZERO, error: error("no ack") }).await;
    assert_eq!(oldest().await, Some(first), "it waits for its next try");
    report(fixture, &claim_one(fixture).await, Report::Aborted(error("too big"))).await;
    assert_eq!(oldest().await, Some(second));
    report(fixture, &two, Report::Delivered(None)).await;
    assert_eq!(oldest().await, None);
}

/// Messages outlive the process that wrote them.
pub async fn a_message_is_there_for_the_next_process(fixture: &dyn Fixture) {
    said(fixture, vec![message("k1")]).await;
    fixture.reopen().await;
    claim_one(fixture).await;
}

/// One in twenty of those that are not out is older than what is told, whatever keeps them.
pub async fn the_age_of_those_that_wait_is_known(fixture: &dyn Fixture) {
    let old = async || fixture.store().outbox_ages().await.unwrap().old;
    assert_eq!(old().await, None);
    let mut written = Vec::new();
    for nth in 0..40_u64 {
        written.push(fixture.now());
        let messages = vec![message(&format!("k{nth}"))];
        apply(&*fixture.store(), Commit { messages, ..started(saga(nth + 1), fixture.now()) }).await;
        fixture.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(old().await, Some(written[2]));
    let claimed = claim(fixture, 10).await;
    assert_eq!(old().await, Some(written[2]), "those on their way are not out");
    for outgoing in &claimed {
        report(fixture, outgoing, Report::Retry { after: LEASE, error: error("no ack") }).await;
    }
    assert_eq!(old().await, Some(written[2]), "nor are those that are tried again");
    fixture.advance(LEASE).await;
    let claimed = claim(fixture, 40).await;
    for outgoing in claimed.iter().filter(|outgoing| outgoing.created_at < written[20]) {
        report(fixture, outgoing, Report::Delivered(None)).await;
    }
    assert_eq!(old().await, Some(written[21]));
    for outgoing in claimed.iter().filter(|outgoing| outgoing.created_at > written[20]) {
        report(fixture, outgoing, Report::Aborted(error("too big"))).await;
    }
    assert_eq!(old().await, Some(written[20]), "the last one");
}

/// Messages are counted, and not the numbers between them.
pub async fn gaps_between_those_that_wait_make_none_of_them_older_or_younger(fixture: &dyn Fixture) {
    let mut written = Vec::new();
    let mut sagas = 0;
    let mut say = async |messages: Vec<NewMessage>| {
        sagas += 1;
        let at = fixture.now();
        apply(&*fixture.store(), Commit { messages, ..started(saga(sagas), at) }).await;
        fixture.advance(Duration::from_secs(1)).await;
        at
    };
    for nth in 0..20 {
        written.push(say(vec![message(&format!("k{nth}"))]).await);
    }
    let other = |nth: i32| NewMessage { topic: "others".to_owned(), ..message(&format!("k{nth}")) };
    say((0..400).map(other).collect()).await;
    for nth in 20..40 {
        written.push(say(vec![message(&format!("k{nth}"))]).await);
    }
    let share = Share { topic: "others".to_owned(), limit: 400, lease: LEASE };
    let others = fixture.store().claim_outbox(&[share], "tester").await.unwrap();
    let out = |other: &Outgoing| Sent { id: other.id, lock: other.lock, report: Report::Delivered(None) };
    fixture.store().settle_outbox(&others.iter().map(out).collect::<Vec<_>>()).await.unwrap();
    let ages = fixture.store().outbox_ages().await.unwrap();
    assert_eq!((ages.oldest, ages.old), (Some(written[0]), Some(written[2])));
}

/// However long the queue is, only so many are counted, the oldest ones.
pub async fn of_a_long_queue_the_oldest_are_counted(fixture: &dyn Fixture) {
    let place = AGED / 20;
    let mut written = Vec::new();
    for (nth, keys) in (1..).zip([0..place, place..place + 1, place + 1..2 * AGED]) {
        let messages = keys.map(|key| message(&format!("k{key}"))).collect();
        written.push(fixture.now());
        apply(&*fixture.store(), Commit { messages, ..started(saga(nth), fixture.now()) }).await;
        fixture.advance(Duration::from_secs(1)).await;
    }
    let ages = fixture.store().outbox_ages().await.unwrap();
    assert_eq!((ages.oldest, ages.old), (Some(written[0]), Some(written[1])), "one in twenty of {AGED}");
}
