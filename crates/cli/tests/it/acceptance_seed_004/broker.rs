//! Requests from a real NATS server to the real binary.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::{self, consumer, stream};
use backstitch_testkit::nats::NatsServer;
use serde_json::json;

use crate::acceptance_seed_004::services::Mood;
use crate::acceptance_seed_004::stage::{Open, PATH, Stage, led_to, on_both_stores};
use crate::support::within;

const ACTIONS: [&str; 3] = ["source_resolving", "vercel_creating", "hook_creating"];

struct Broker {
    server: NatsServer,
    stream: stream::Stream,
    context: jetstream::Context,
}

impl Broker {
    async fn start() -> Self {
        let server = NatsServer::start().await;
        let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
        let subjects = vec!["sites.>".to_owned()];
        let config = stream::Config { name: "SITES".to_owned(), subjects, ..stream::Config::default() };
        let stream = context.create_stream(config).await.unwrap();
        Self { server, stream, context }
    }

    async fn publish(&self, body: String) {
        self.context.publish("sites.requested", body.into()).await.unwrap().await.unwrap();
    }

    /// Waits until so many messages are acknowledged.
    async fn acknowledged(&self, messages: u64) {
        within(async {
            loop {
                let info = self.stream.consumer_info("backstitch").await;
                if info.is_ok_and(|info: consumer::Info| info.ack_floor.stream_sequence >= messages) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

/// A server that provisions what the broker's messages ask for.
async fn open(stage: &Stage, broker: &Broker, folder: &tempfile::TempDir) -> Open {
    let config = format!(
        "[lifecycle.nats]\nurl = \"{}\"\nstream = \"SITES\"\nsubject = \"sites.requested\"\nack_wait = \"4s\"\n",
        broker.server.url()
    );
    let path = folder.path().join("backstitch.toml");
    std::fs::write(&path, config).unwrap();
    let path = path.display().to_string();
    stage.open_driven(&[("BACKSTITCH_CONFIG", path.as_str()), ("BACKSTITCH_LIFECYCLE_LEASE", "1s")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn redelivered_message_finishes_a_site_after_any_kill() {
    on_both_stores(async |stage| {
        let (broker, folder) = (Broker::start().await, tempfile::tempdir().unwrap());
        for (number, state) in (1..).zip(ACTIONS) {
            let mut running = open(&stage, &broker, &folder).await;
            stage.services.will(state, Mood::Hangs);
            let before = stage.services.calls().get(state).copied();
            broker.publish(json!({ "site_id": state, "repo": "a/b" }).to_string()).await;
            within(async {
                while stage.services.calls().get(state).copied() == before {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
            running.program.child.kill().await.unwrap();
            let running = open(&stage, &broker, &folder).await;
            let live = running.becomes(state, "live").await;
            broker.acknowledged(number).await;
            assert_eq!(led_to(&running.log(state).await), PATH[1..], "every state once");
            assert!(live["attempt"].as_u64().unwrap() <= 2, "{live}");
            running.kill().await;
        }
        let calls = stage.services.calls();
        for state in ACTIONS {
            assert_eq!(calls[state], 4, "three sites, and one call that nobody heard the answer to");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_message_becomes_a_dead_letter() {
    on_both_stores(async |stage| {
        let (broker, folder) = (Broker::start().await, tempfile::tempdir().unwrap());
        let running = open(&stage, &broker, &folder).await;
        for body in ["{\"site_id\": ", "[]", "{\"site\": 7}"] {
            broker.publish(body.to_owned()).await;
        }
        broker.publish(json!({ "site_id": "good" }).to_string()).await;
        broker.acknowledged(4).await;
        assert_eq!(running.look("good").await["state"], "live", "acknowledged when nothing is left to do");
        let first = running.get("/v1/lifecycle-dead-letters?limit=2").await;
        let cursor = first["next_cursor"].as_str().unwrap();
        let rest = running.get(&format!("/v1/lifecycle-dead-letters?cursor={cursor}")).await;
        assert_eq!(rest["next_cursor"], json!(null));
        let pages = [&first, &rest].map(|page| page["items"].as_array().unwrap().clone());
        let mut kept: Vec<_> = pages.iter().flatten().map(|item| item["body"].as_str().unwrap()).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["[]", "{\"site\": 7}", "{\"site_id\": "], "each once");
        for item in pages.iter().flatten() {
            assert!(item["source"] == "nats:SITES" && item["reason"] != "", "{item}");
        }
    })
    .await;
}

/// A server whose state-changed messages go to the broker.
async fn open_sending(stage: &Stage, broker: &Broker, folder: &tempfile::TempDir) -> Open {
    let config = format!(
        "[outbox.topics.\"sites.provisioning.*\"]\nadapter = \"nats\"\nurl = \"{}\"\nstream = \"SITES\"\n\
         subject = \"sites.changed\"\ntimeout = \"2s\"\n",
        broker.server.url()
    );
    let path = folder.path().join("backstitch.toml");
    std::fs::write(&path, config).unwrap();
    stage.open_with(&[("BACKSTITCH_CONFIG", &path.display().to_string())]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_do_not_change_the_order_of_a_site_in_nats() {
    on_both_stores(async |stage| {
        let (broker, folder) = (Broker::start().await, tempfile::tempdir().unwrap());
        let sites: Vec<String> = (0..8).map(|nth| format!("s{nth}")).collect();
        for (round, states) in (0..).zip([&PATH[1..4], &PATH[4..6], &PATH[6..]]) {
            let running = open_sending(&stage, &broker, &folder).await;
            let moves = sites.iter().map(async |site| {
                if round == 0 {
                    running.start(site, &json!({})).await;
                }
                for state in states {
                    running.moves(site, state).await;
                }
            });
            futures::future::join_all(moves).await;
            // Some of its messages are on their way.
            running.kill().await;
        }
        let _running = open_sending(&stage, &broker, &folder).await;
        let all = sites.len() as u64 * 7;
        within(async {
            while broker.stream.get_info().await.unwrap().state.messages < all {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let mut arrived: HashMap<String, Vec<String>> = HashMap::new();
        for place in 1..=all {
            let message = broker.stream.get_raw_message(place).await.unwrap();
            let told: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
            let text = |field: &str| told[field].as_str().unwrap().to_owned();
            arrived.entry(text("site_id")).or_default().push(text("to_state"));
        }
        for site in &sites {
            assert_eq!(arrived[site], PATH[1..], "{site}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_messages_use_subjects_ending_in_the_state() {
    on_both_stores(async |stage| {
        let (broker, folder) = (Broker::start().await, tempfile::tempdir().unwrap());
        let running = open_sending(&stage, &broker, &folder).await;
        running.bring("s", "live").await;
        within(async {
            for state in &PATH[1..] {
                let subject = format!("sites.changed.{state}");
                let message = loop {
                    match broker.stream.get_last_raw_message_by_subject(&subject).await {
                        Ok(message) => break message,
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                };
                let told: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
                assert_eq!((&told["to_state"], &told["site_id"]), (&json!(state), &json!("s")));
            }
        })
        .await;
    })
    .await;
}
