//! §0 and §4: an accepted request reaches the broker despite crashes, and several workers share the work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstitch_testkit::scale;

use crate::acceptance_seed_003::broker::Mood;
use crate::acceptance_seed_003::desk::{Open, on_both_stores, order};
use crate::support::within;

/// A send that the test does not interrupt never takes that long.
const SOON: &str = "timeout = \"5s\"\nconcurrency = 16";

async fn kill(mut open: Open) {
    open.program.child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn s0_message_of_a_killed_sender_is_resent_in_doubt() {
    on_both_stores(Mood::Hangs, async |desk| {
        let open = desk.open_with(SOON, &[]).await;
        let id = open.accepted("k-1").await;
        desk.broker.has_heard(1).await;
        kill(open).await;
        desk.broker.be(Mood::Takes);
        let open = desk.open_with(SOON, &[]).await;
        let arrived = open.becomes(id, "succeeded").await;
        assert_eq!(arrived["in_doubt"], true);
        let heard = desk.broker.heard();
        assert!(heard.iter().all(|heard| heard.key == "k-1"));
        assert!(heard.last().unwrap().in_doubt && !heard[0].in_doubt);
        assert_eq!(arrived["attempts"], 1, "a send that nobody finished is none");
    })
    .await;
}

/// Publishes messages until it is interrupted. A key with a lost response is sent again.
async fn ask_on(open: &Open, accepted: &mut BTreeMap<String, i64>) {
    loop {
        let key = format!("k-{}", accepted.len());
        let answer = open.ask(&order(&key)).await;
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        accepted.insert(key, answer.json()["id"].as_i64().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s0_kills_lose_no_accepted_request() {
    on_both_stores(Mood::TakesSlowly(Duration::from_millis(5)), async |desk| {
        let mut accepted = BTreeMap::new();
        for round in 0..scale::kills() {
            let open = desk.open_with(SOON, &[]).await;
            // At another moment each time.
            let life = Duration::from_millis(30 + u64::try_from(round).unwrap() * 37 % 200);
            let _ = tokio::time::timeout(life, ask_on(&open, &mut accepted)).await;
            kill(open).await;
        }
        let open = desk.open_with(SOON, &[]).await;
        let last = format!("k-{}", accepted.len());
        accepted.insert(last.clone(), open.ask(&order(&last)).await.json()["id"].as_i64().unwrap());
        let heard_of = |key: &str| {
            let heard = desk.broker.heard();
            heard.into_iter().filter(|heard| heard.key == key).collect::<Vec<_>>()
        };
        for (key, id) in &accepted {
            let arrived = open.becomes(*id, "succeeded").await;
            assert_eq!(arrived["attempts"], 1, "a send that nobody finished is none");
            let heard = heard_of(key);
            let mut expected = order(key);
            expected.as_object_mut().unwrap().remove("idempotency_key");
            assert!(heard.iter().all(|heard| heard.body == expected), "{heard:?}");
            assert!(heard.iter().skip(1).all(|again| again.in_doubt), "a repeat says that it may be one");
            assert!(heard.len() == 1 || arrived["in_doubt"] == true, "only what is in doubt is sent twice");
        }
        let keys: BTreeSet<String> = desk.broker.counts().into_keys().collect();
        assert_eq!(keys, accepted.into_keys().collect(), "told apart by their keys, each arrived once");
        let unsettled = "select count(*) from idempotency_ledger where state <> 'succeeded'";
        assert_eq!(desk.value(unsettled).await.as_deref(), Some("0"));
        let others = "select count(*) from outbox where status <> 'succeeded'";
        assert_eq!(desk.value(others).await.as_deref(), Some("0"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_two_workers_share_messages_without_repeats() {
    on_both_stores(Mood::TakesSlowly(Duration::from_millis(2)), async |desk| {
        if !desk.place.is_shared() {
            return;
        }
        let (one, other) =
            tokio::join!(desk.open_with("concurrency = 8", &[]), desk.open_with("concurrency = 8", &[]));
        let ids = futures::future::join_all((0..200).map(|nth| {
            let open = if nth % 2 == 0 { &one } else { &other };
            async move { open.accepted(&format!("k-{nth}")).await }
        }));
        for id in ids.await {
            one.becomes(id, "succeeded").await;
        }
        let counts = desk.broker.counts();
        assert_eq!(counts.len(), 200);
        assert!(counts.values().all(|times| *times == 1), "{counts:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s0_shutdown_finishes_sends_and_returns_the_rest() {
    on_both_stores(Mood::TakesSlowly(Duration::from_millis(200)), async |desk| {
        let open = desk.open_with("concurrency = 2", &[]).await;
        for nth in 0..8 {
            open.accepted(&format!("k-{nth}")).await;
        }
        desk.broker.has_heard(2).await;
        let mut open = open;
        open.program.terminate();
        assert_eq!(open.program.exit_code().await, Some(0));
        assert_eq!(
            desk.value("select count(*) from outbox where status = 'sending'").await.as_deref(),
            Some("0")
        );
        desk.broker.be(Mood::Takes);
        let open = desk.open_with("concurrency = 2", &[]).await;
        within(async {
            while desk.value("select count(*) from outbox where status <> 'succeeded'").await.as_deref()
                != Some("0")
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert!(desk.broker.counts().values().all(|times| *times == 1), "{:?}", desk.broker.counts());
        drop(open);
    })
    .await;
}
