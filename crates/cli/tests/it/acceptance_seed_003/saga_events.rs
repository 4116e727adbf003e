//! Events of sagas are published in the order of the log, despite crashes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_003::broker::{Broker, Heard, Mood};
use crate::acceptance_seed_003::desk::{Desk, Open, on_both_stores};
use crate::support::within;

const SAGAS: usize = 12;

/// All events go to the broker, soon again if their sender was killed. A slow broker must not exhaust the attempts.
fn announcing(desk: &Desk, events: &str) -> String {
    format!(
        "[outbox.sagas]\nevents = [{events}]\n\
         [outbox.topics.\"backstitch.sagas\"]\nadapter = \"http\"\nurl = \"{}\"\n\
         timeout = \"400ms\"\nconcurrency = 8\nmax_attempts = 1000\nbackoff = [\"50ms\"]\n",
        desk.broker.url()
    )
}

/// A saga of two calls to a service.
async fn declare(open: &Open, service: &Broker) {
    let call = || json!({ "http": { "method": "POST", "url": service.url() } });
    let step = |id: &str| json!({ "id": id, "action": call(), "compensate": call() });
    let definition = json!({ "name": "parcel", "steps": [step("pack"), step("send")] });
    let path = "/v1/definitions/parcel?apply=true";
    let answer = open.client.send(Method::PUT, path, &[], definition.to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

async fn ends(open: &Open, saga: &str) {
    let path = format!("/v1/sagas/{saga}?wait=5");
    within(async { while open.client.get(&path).await.json()["status"] != "succeeded" {} }).await;
}

/// What the log of a saga says, as it is to be told: key and content.
async fn owed(open: &Open, saga: &str, told: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let log = open.client.get(&format!("/v1/sagas/{saga}/log?limit=1000")).await.json();
    let items = log["items"].as_array().unwrap().iter();
    items
        .filter(|item| told(item["type"].as_str().unwrap()))
        .map(|item| {
            let mut item = item.clone();
            item["saga_id"] = saga.into();
            item["definition"] = "parcel".into();
            (format!("{saga}:{}", item["seq"]), item)
        })
        .collect()
}

/// What a receiver that tells repeats by their key has, saga by saga, in the order it came.
fn received(heard: &[Heard]) -> HashMap<String, Vec<(String, Value)>> {
    let mut known = HashSet::new();
    let mut received: HashMap<String, Vec<(String, Value)>> = HashMap::new();
    for heard in heard.iter().filter(|heard| known.insert(heard.key.clone())) {
        let saga = heard.body["saga_id"].as_str().unwrap().to_owned();
        received.entry(saga).or_default().push((heard.key.clone(), heard.body.clone()));
    }
    received
}

/// Waits until the receiver has exactly what the logs say.
async fn arrive(desk: &Desk, open: &Open, sagas: &[String], told: impl Fn(&str) -> bool + Copy) {
    let mut expected = HashMap::new();
    for saga in sagas {
        expected.insert(saga.clone(), owed(open, saga, told).await);
    }
    let all: usize = expected.values().map(Vec::len).sum();
    within(async {
        while received(&desk.broker.heard()).values().map(Vec::len).sum::<usize>() < all {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(received(&desk.broker.heard()), expected);
}

async fn start(open: &Open) -> String {
    open.client.start(&json!({ "definition": "parcel", "input": { "to": "Rome" } })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn selected_saga_events_arrive_in_log_order() {
    on_both_stores(Mood::Takes, async |desk| {
        let service = Broker::start(Mood::Takes).await;
        let open = desk.open_with(&announcing(&desk, "\"saga.*\", \"step.succeeded\""), &[]).await;
        declare(&open, &service).await;
        let sagas = [start(&open).await, start(&open).await];
        for saga in &sagas {
            ends(&open, saga).await;
        }
        let told = |name: &str| name.starts_with("saga.") || name == "step.succeeded";
        arrive(&desk, &open, &sagas, told).await;
        let refused = json!({ "topic": "backstitch.sagas", "idempotency_key": "k", "payload": 1 });
        assert_eq!(open.client.post("/v1/outbox", &refused).await.problem(), "unknown-topic");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saga_events_arrive_in_order_despite_kills() {
    on_both_stores(Mood::TakesSlowly(Duration::from_millis(3)), async |desk| {
        let service = Broker::start(Mood::Takes).await;
        let settings = announcing(&desk, "\"*\"");
        let soon = [("BACKSTITCH_SAGAS_LEASE", "1s")];
        let mut sagas = Vec::new();
        for _ in 0..3 {
            let mut open = desk.open_with(&settings, &soon).await;
            if sagas.is_empty() {
                declare(&open, &service).await;
            }
            // The first step of each new saga is unfinished when the server is killed.
            service.be(Mood::Hangs);
            for _ in 0..SAGAS {
                sagas.push(start(&open).await);
            }
            // Each of them has begun, and waits for its first step.
            let started = |heard: &Heard| heard.body["type"] == "saga.started";
            within(async {
                while desk.broker.heard().iter().filter(|heard| started(heard)).count() < sagas.len() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            open.program.child.kill().await.unwrap();
            service.be(Mood::Takes);
        }
        let open = desk.open_with(&settings, &soon).await;
        for saga in &sagas {
            ends(&open, saga).await;
        }
        arrive(&desk, &open, &sagas, |_| true).await;
        let adopted = desk.broker.heard().iter().any(|heard| heard.body["type"] == "saga.adopted");
        assert!(adopted, "something was under way when the server was killed");
    })
    .await;
}
