//! A subscription's limits: concurrent requests and requests per second.

use serde_json::json;

use crate::acceptance_seed_000::receiver::Mood;
use crate::acceptance_seed_000::stage::{on_both_stores, with};

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gets_no_more_requests_at_once_than_it_asks_for() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let two = json!({ "event_types": ["a.*"], "max_concurrency": 2 });
        open.subscribe(&with(stage.terms("a"), two)).await;
        open.subscribe(&with(stage.terms("b"), json!({ "event_types": ["b.*"] }))).await;
        stage.receiver.be("a", Mood::Hangs);
        let mut told = Vec::new();
        for nth in 0..6 {
            told.push(open.tell_of("a.event", &format!("a-{nth}")).await);
        }
        stage.receiver.has_heard("a", 2).await;
        // Others that come later are served, so there would have been time for more.
        for nth in 0..6 {
            let other = open.tell_of("b.event", &format!("b-{nth}")).await;
            open.becomes(&other, "Completed").await;
        }
        assert_eq!(stage.receiver.heard("a").len(), 2);
        stage.receiver.be("a", Mood::Takes);
        for told in &told {
            open.becomes(told, "Completed").await;
        }
        assert_eq!(stage.receiver.heard("a").len(), 6);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gets_no_more_requests_a_second_than_it_asks_for() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.subscribe(&with(stage.terms("a"), json!({ "rate_limit": 1 }))).await;
        let mut begun = Vec::new();
        let told = futures::future::join_all(["o-1", "o-2", "o-3"].map(|id| open.tell(id))).await;
        for told in &told {
            let arrived = open.becomes(told, "Completed").await;
            assert_eq!(arrived["attempt_count"], 1, "to wait is no attempt");
            begun.push(
                arrived["attempts"][0]["started_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap(),
            );
        }
        begun.sort();
        // Leave to begin is given a second apart; between leave and beginning a busy machine may lose some of it.
        let between = begun[2].duration_since(begun[0]);
        assert!(between >= jiff::SignedDuration::from_secs(1), "{begun:?}");
    })
    .await;
}
