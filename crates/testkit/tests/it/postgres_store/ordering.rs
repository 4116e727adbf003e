//! Ordering keys with several claiming sessions.

use backstitch::store::MessageStore as _;
use backstitch::store::outbox::{NewMessage, Publication};
use backstitch_kernel::Timestamp;
use backstitch_kernel::idempotency::Digest;
use backstitch_testkit::PATIENCE;
use backstitch_testkit::conformance::make::{claim_messages, message};
use tokio::time::timeout;

use crate::postgres_store::support::{fresh_store, session};

fn of_site(topic: &str, key: &str, site: &str) -> Publication {
    let ordering_key = Some(site.to_owned());
    Publication {
        message: NewMessage { topic: topic.to_owned(), ordering_key, ..message(key) },
        digest: Digest([1; 32]),
        expires_in: None,
        ordering_scope: Some("sites.*".to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_no_other_session() {
    let (store, address) = fresh_store().await;
    let batch = [
        of_site("sites.created", "a-1", "a"),
        of_site("sites.live", "a-2", "a"),
        of_site("sites.live", "b-1", "b"),
    ];
    store.publish(&batch, Timestamp::from_micros(1)).await.unwrap();
    let other = session(&address).await;
    let claim = "begin; select from backstitch.outbox where idempotency_key = 'a-1' for update";
    other.batch_execute(claim).await.unwrap();
    let keys = async || {
        let claimed = timeout(PATIENCE, claim_messages(&*store, 10)).await.unwrap();
        claimed.into_iter().map(|outgoing| outgoing.message.idempotency_key).collect::<Vec<_>>()
    };
    assert_eq!(keys().await, ["b-1"]);
    other.batch_execute("commit").await.unwrap();
    assert_eq!(keys().await, ["a-1"]);
}
