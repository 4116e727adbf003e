//! Requests, and when they are acknowledged.

use std::time::Duration;

use backstitch::StepError;
use backstitch_modules::lifecycles::nats::Config;
use backstitch_modules::lifecycles::sites::{AWAITING_GITHUB, Endpoints};
use backstitch_modules::lifecycles::{Builder, Failure};
use serde_json::json;

use crate::lifecycle_nats::broker::{ACK_WAIT, Broker};
use crate::lifecycle_nats::services::Answer;
use crate::lifecycle_nats::stage::{SITES, Stage, always, eventually};

const ACTIONS: [&str; 3] = ["source_resolving", "vercel_creating", "hook_creating"];

#[tokio::test(flavor = "multi_thread")]
async fn a_request_runs_to_live_and_is_acknowledged_only_then() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        stage.services.will("hook_creating", Answer::Waits);
        let request = json!({"site_id": "s", "correlation_id": "c", "repo": "a/b", "size": 7});
        let sequence = broker.request(&request).await;
        eventually("the hook is being created", async || stage.services.calls_for("hook_creating") == [1])
            .await;
        always(ACK_WAIT * 2, "it is under way, and not delivered again", async || {
            let info = broker.info().await.unwrap();
            (info.num_ack_pending, info.ack_floor.stream_sequence, info.delivered.consumer_sequence)
                == (1, 0, 1)
        })
        .await;
        stage.services.release();
        broker.until_acknowledged(sequence).await;
        let site = node.get(SITES, "s").await.unwrap();
        assert_eq!((&*site.instance.state, site.instance.attempt), ("live", 1));
        assert_eq!(site.instance.given.correlation_id.as_deref(), Some("c"));
        assert_eq!(site.instance.given.input.unwrap().as_str(), r#"{"repo":"a/b","size":7}"#);
        assert!(ACTIONS.iter().all(|action| stage.services.calls_for(action) == [1]));
        assert_eq!(broker.deliveries().await, 1);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_waits_for_github_is_acknowledged_and_a_second_request_goes_on() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        let no_link = StepError::refused("link GitHub first").with_code("no_github_token");
        stage.services.will("source_resolving", Answer::Fails(no_link));
        let first = broker.request(&json!({"site_id": "s", "correlation_id": "one"})).await;
        broker.until_acknowledged(first).await;
        let waits = node.get(SITES, "s").await.unwrap();
        assert_eq!((&*waits.instance.state, waits.instance.attempt), (AWAITING_GITHUB, 1));

        let second = broker.request(&json!({"site_id": "s", "correlation_id": "two"})).await;
        broker.until_acknowledged(second).await;
        let site = node.get(SITES, "s").await.unwrap();
        assert_eq!((&*site.instance.state, site.instance.attempt), ("live", 2));
        assert_eq!(site.instance.given.correlation_id.as_deref(), Some("one"), "the first one counts");
        assert_eq!(
            stage.services.calls_for("source_resolving"),
            [1, 1],
            "a state that is entered again is another"
        );
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_site_that_has_ended_is_acknowledged_and_changes_nothing() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        stage.services.will("vercel_creating", Answer::Hangs);
        let first = broker.request(&json!({"site_id": "s"})).await;
        node.until(SITES, "s", "vercel_creating").await;
        let failure = Failure { kind: "quota_exceeded".to_owned(), message: "too many sites".to_owned() };
        let failed = node.lifecycles.fail(SITES, "s", failure).await.unwrap().standing;
        broker.until_acknowledged(first).await;

        let second = broker.request(&json!({"site_id": "s", "repo": "another"})).await;
        broker.until_acknowledged(second).await;
        assert_eq!(node.get(SITES, "s").await.unwrap(), failed);
        assert_eq!(node.lifecycles.dead_letters(None, 10).await.unwrap(), []);
        node.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_drive_is_acknowledged_once_it_is_started() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let mut node = stage.node().await;
        let parcel = Builder::new("parcel", "packed").terminal("sent").edge("packed", "sent");
        node.declare(parcel.build().unwrap()).await;
        node.lifecycles.provide_sites(&Endpoints::default()).await.unwrap();
        // Nobody performs actions here: there are none.
        node.consume(Config { machine: "parcel".to_owned(), ..broker.config() });
        let sequence = broker.request(&json!({"key": "p", "site_id": "s"})).await;
        broker.until_acknowledged(sequence).await;
        let parcel = node.get("parcel", "p").await.unwrap();
        assert_eq!(&*parcel.instance.state, "packed");
        assert_eq!(parcel.instance.given.input.unwrap().as_str(), r#"{"site_id":"s"}"#);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_one_site_at_once_are_one_site_begun_more_than_once() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(broker.config()).await;
        stage.services.will("source_resolving", Answer::Waits);
        let mut last = 0;
        for _ in 0..5 {
            last = broker.request(&json!({"site_id": "s"})).await;
        }
        eventually("all of them are begun", async || {
            node.get(SITES, "s").await.is_some_and(|site| site.instance.attempt == 5)
        })
        .await;
        assert_eq!(broker.info().await.unwrap().num_ack_pending, 5);
        stage.services.release();
        broker.until_acknowledged(last).await;
        assert_eq!(&*node.get(SITES, "s").await.unwrap().instance.state, "live");
        assert!(ACTIONS.iter().all(|action| stage.services.calls_for(action) == [1]));
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_are_under_way_than_allowed_and_the_others_wait_in_the_stream() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let node = stage.provisioner(Config { concurrency: 2, ..broker.config() }).await;
        let mut last = 0;
        for site in 0..6 {
            stage.services.will("source_resolving", Answer::Waits);
            last = broker.request(&json!({"site_id": format!("s{site}")})).await;
        }
        eventually("two are under way", async || stage.services.calls_for("source_resolving").len() == 2)
            .await;
        for released in 0..6 {
            let most = 2.min(6 - released);
            eventually("there is room for another", async || {
                broker.info().await.unwrap().num_ack_pending == most
            })
            .await;
            stage.services.release();
        }
        broker.until_acknowledged(last).await;
        assert_eq!(broker.deliveries().await, 6);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_stands_still_no_more_are_taken_than_allowed_and_none_is_acknowledged() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        // Nobody is to lose patience here.
        let config = Config { concurrency: 4, ack_wait: Duration::from_secs(60), ..broker.config() };
        let node = stage.provisioner(config).await;
        let first = broker.request(&json!({"site_id": "first"})).await;
        broker.until_acknowledged(first).await;
        let held_up = stage.hold_up().await;
        let mut last = first;
        for site in 0..20 {
            last = broker.request(&json!({"site_id": format!("s{site}")})).await;
        }
        eventually("as many are under way as may be", async || {
            broker.info().await.unwrap().num_ack_pending == 4
        })
        .await;
        always(Duration::from_secs(1), "the others wait in the stream", async || {
            let info = broker.info().await.unwrap();
            (info.num_ack_pending, info.ack_floor.stream_sequence, info.num_pending) == (4, first, 16)
        })
        .await;
        drop(held_up);
        broker.until_acknowledged(last).await;
        for site in 0..20 {
            assert_eq!(&*node.get(SITES, &format!("s{site}")).await.unwrap().instance.state, "live");
        }
        node.stop().await;
    }
}
