//! §2.1 and §3: a request and its key are written together, and so are their results.

use std::time::Duration;

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::{Desk, on_both_stores, order};
use crate::support::Place;

/// Something that the database refuses for a while.
struct Forbidden {
    on_file: [&'static str; 2],
    on_server: [&'static str; 2],
}

const NEW_MESSAGES: Forbidden = Forbidden {
    on_file: [
        "create trigger forbidden before insert on outbox begin select raise(abort, 'not now'); end",
        "drop trigger forbidden",
    ],
    on_server: [
        "alter table outbox add constraint forbidden check (idempotency_key <> 'k-1') not valid",
        "alter table outbox drop constraint forbidden",
    ],
};

const SUCCESS_IN_THE_LEDGER: Forbidden = Forbidden {
    on_file: [
        "create trigger forbidden before update on idempotency_ledger when new.state = 'succeeded'
         begin select raise(abort, 'not now'); end",
        "drop trigger forbidden",
    ],
    on_server: [
        "alter table idempotency_ledger add constraint forbidden check (state <> 'succeeded') not valid",
        "alter table idempotency_ledger drop constraint forbidden",
    ],
};

impl Forbidden {
    fn statements(&self, desk: &Desk) -> [&'static str; 2] {
        match desk.place {
            Place::Sqlite(_) => self.on_file,
            Place::Postgres(_) => self.on_server,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_1_a_request_and_its_key_stand_or_fall_together() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let [forbid, allow] = NEW_MESSAGES.statements(&desk);
        desk.place.rows(forbid).await;
        let refused = open.ask(&order("k-1")).await;
        assert!(refused.status >= 500, "{refused:?}");
        assert_eq!(desk.ledger("k-1").await, None, "no key without its request");
        desk.place.rows(allow).await;
        let id = open.accepted("k-1").await;
        open.becomes(id, "succeeded").await;
        assert_eq!(desk.broker.counts()["k-1"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_an_outcome_is_settled_with_its_key_or_not_at_all() {
    on_both_stores(Mood::Takes, async |desk| {
        let open = desk.open().await;
        let [forbid, allow] = SUCCESS_IN_THE_LEDGER.statements(&desk);
        desk.place.rows(forbid).await;
        let id = open.accepted("k-1").await;
        desk.broker.has_heard(1).await;
        // Time to settle one of the two.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(open.message(id).await["status"], "sending");
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("accepted"));
        desk.place.rows(allow).await;
        open.becomes(id, "succeeded").await;
        assert_eq!(desk.ledger("k-1").await.as_deref(), Some("succeeded"));
        assert_eq!(desk.broker.counts()["k-1"], 1, "what is known to have arrived is not sent again");
    })
    .await;
}
