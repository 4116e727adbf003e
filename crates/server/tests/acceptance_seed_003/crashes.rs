//! §0 and §4: whatever crashes in between, an accepted request reaches the broker, and several workers share the work.

use std::time::Duration;

use crate::broker::Mood;
use crate::desk::{Open, on_both_stores};
use crate::support::within;

const SOON: &str = "timeout = \"400ms\"\nconcurrency = 16";

async fn kill(mut open: Open) {
    open.program.child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn s0_a_message_whose_worker_was_killed_while_sending_is_sent_again_in_doubt_under_its_key() {
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

#[tokio::test(flavor = "multi_thread")]
async fn s0_kill_after_kill_every_accepted_request_arrives_and_none_is_given_up() {
    on_both_stores(Mood::TakesSlowly(Duration::from_millis(5)), async |desk| {
        let mut accepted = Vec::new();
        for round in 0..6 {
            let open = desk.open_with(SOON, &[]).await;
            for nth in 0..25 {
                accepted.push(open.accepted(&format!("k-{round}-{nth}")).await);
            }
            kill(open).await;
        }
        let open = desk.open_with(SOON, &[]).await;
        for id in &accepted {
            open.becomes(*id, "succeeded").await;
        }
        let counts = desk.broker.counts();
        assert_eq!(counts.len(), accepted.len(), "each key reached the broker");
        let unsettled = "select count(*) from idempotency_ledger where state <> 'succeeded'";
        assert_eq!(desk.value(unsettled).await.as_deref(), Some("0"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_two_workers_share_the_messages_and_none_is_sent_twice() {
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
async fn s0_a_shutdown_lets_what_is_being_sent_arrive_and_gives_the_rest_back() {
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
