//! Ordering keys across topics: one scope, many topics, one message of a key at a time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use backstitch::sink::Undelivered;
use backstitch::store::outbox::{NewMessage, Outgoing, Publication, Report, Sent, Status};
use backstitch_kernel::idempotency::Digest;

use super::Fixture;
use super::make::{A_MOMENT, LEASE, claim_messages, message};

/// A message `topic/key` about one site, ordered across all topics of sites.
fn of_site(name: &str, site: &str) -> Publication {
    let (topic, key) = name.split_once('/').unwrap();
    let message = NewMessage {
        topic: format!("sites.{topic}"),
        ordering_key: Some(site.to_owned()),
        ..message(&format!("{site}-{key}"))
    };
    let ordering_scope = Some("sites.*".to_owned());
    Publication { message, digest: Digest([1; 32]), expires_in: None, ordering_scope }
}

async fn publish(fixture: &dyn Fixture, batch: &[Publication]) {
    fixture.store().publish(batch, fixture.now()).await.unwrap();
}

async fn report(fixture: &dyn Fixture, outgoing: &Outgoing, report: Report) {
    let sent = Sent { id: outgoing.id, lock: outgoing.lock, report };
    fixture.store().settle_outbox(&[sent]).await.unwrap();
}

fn keys(claimed: &[Outgoing]) -> Vec<&str> {
    let mut keys: Vec<&str> =
        claimed.iter().map(|outgoing| outgoing.message.idempotency_key.as_str()).collect();
    keys.sort_unstable();
    keys
}

/// The one message there is to send.
async fn claim_one(fixture: &dyn Fixture, key: &str) -> Outgoing {
    let mut claimed = claim_messages(&*fixture.store(), 10).await;
    assert_eq!(keys(&claimed), [key]);
    claimed.remove(0)
}

fn error() -> Undelivered {
    Undelivered::new("no_ack", "the broker is gone")
}

/// A message holds its key in all topics of the scope until it is settled, and no other key.
pub async fn a_scope_keeps_order_across_topics(fixture: &dyn Fixture) {
    let store = fixture.store();
    let batch = ["created/1", "hook/2", "live/3"].map(|name| of_site(name, "a"));
    publish(fixture, &batch).await;
    publish(fixture, &[of_site("live/1", "b")]).await;
    let claimed = claim_messages(&*store, 10).await;
    assert_eq!(keys(&claimed), ["a-1", "b-1"], "another key goes on");
    assert!(claim_messages(&*store, 10).await.is_empty());

    let [other, first] = ["b-1", "a-1"]
        .map(|key| claimed.iter().find(|outgoing| outgoing.message.idempotency_key == key).unwrap());
    report(fixture, other, Report::Delivered(None)).await;
    let after = Duration::from_secs(5);
    report(fixture, first, Report::Retry { after, error: error() }).await;
    assert!(claim_messages(&*store, 10).await.is_empty(), "nothing overtakes a retry");
    fixture.advance(after).await;
    claim_one(fixture, "a-1").await;
    fixture.advance(LEASE + A_MOMENT).await;
    let first = claim_one(fixture, "a-1").await;
    assert!(first.in_doubt, "nothing overtakes an abandoned message");

    report(fixture, &first, Report::Delivered(None)).await;
    let second = claim_one(fixture, "a-2").await;
    report(fixture, &second, Report::Aborted(error())).await;
    claim_one(fixture, "a-3").await;
}

/// A message that expires lets the next one go, in whichever topic that is.
pub async fn an_expired_message_lets_the_next_topic_go(fixture: &dyn Fixture) {
    let expires_in = Some(Duration::from_secs(1));
    publish(fixture, &[of_site("created/1", "a")]).await;
    let first = claim_one(fixture, "a-1").await;
    publish(fixture, &[Publication { expires_in, ..of_site("hook/2", "a") }, of_site("live/3", "a")]).await;
    assert!(claim_messages(&*fixture.store(), 10).await.is_empty());
    fixture.advance(Duration::from_secs(2)).await;
    report(fixture, &first, Report::Delivered(None)).await;
    claim_one(fixture, "a-3").await;
}

/// Messages with a scope and messages without one are ordered apart, even under one key in one topic.
pub async fn without_a_scope_a_key_holds_in_its_topic_alone(fixture: &dyn Fixture) {
    let alone = |name| Publication { ordering_scope: None, ..of_site(name, "a") };
    publish(fixture, &["created/1", "live/2", "live/3"].map(alone)).await;
    assert_eq!(keys(&claim_messages(&*fixture.store(), 10).await), ["a-1", "a-2"]);
}

/// The message that stands for an aborted one has its place in the order of the scope.
pub async fn a_retried_message_keeps_its_scope(fixture: &dyn Fixture) {
    let store = fixture.store();
    publish(fixture, &[of_site("created/1", "a")]).await;
    let first = claim_one(fixture, "a-1").await;
    report(fixture, &first, Report::Aborted(error())).await;
    store.retry_message(first.id, fixture.now()).await.unwrap();
    publish(fixture, &[of_site("live/2", "a")]).await;
    let again = claim_one(fixture, "a-1").await;
    report(fixture, &again, Report::Delivered(None)).await;
    let second = claim_one(fixture, "a-2").await;
    report(fixture, &second, Report::Delivered(None)).await;
    assert_eq!(store.message(second.id).await.unwrap().unwrap().status, Status::Succeeded);
}

/// However many messages of a topic wait behind others, one claim finds those that can go.
pub async fn messages_behind_others_hide_none_that_can_go(fixture: &dyn Fixture) {
    let sites: Vec<String> = (0..300).map(|nth| format!("s{nth:03}")).collect();
    let first: Vec<Publication> = sites.iter().map(|site| of_site("created/1", site)).collect();
    let second: Vec<Publication> = sites.iter().map(|site| of_site("live/2", site)).collect();
    publish(fixture, &first).await;
    publish(fixture, &second).await;
    fixture.advance(A_MOMENT).await;
    publish(fixture, &[of_site("live/1", "z")]).await;
    let claimed = claim_messages(&*fixture.store(), 2).await;
    assert_eq!(keys(&claimed), ["s000-1", "s001-1", "z-1"]);
    for outgoing in &claimed {
        report(fixture, outgoing, Report::Delivered(None)).await;
    }
    let claimed = claim_messages(&*fixture.store(), 2).await;
    assert_eq!(keys(&claimed), ["s000-2", "s001-2", "s002-1", "s003-1"], "they are back in their places");
}
