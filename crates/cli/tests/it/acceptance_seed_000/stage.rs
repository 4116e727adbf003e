//! A server that sends webhooks, and requests to it.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_000::receiver::Receiver;
use crate::support::{Answer, Client, Place, Program, on_both, within};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A database and a receiver of webhooks.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) receiver: Receiver,
}

/// Plays a scene on each kind of database.
pub(crate) async fn on_both_stores(scene: impl AsyncFn(Stage)) {
    on_both(async |place| scene(Stage { place, receiver: Receiver::start().await }).await).await;
}

/// A server that is running.
pub(crate) struct Open {
    pub(crate) client: Client,
    pub(crate) program: Program,
}

impl Stage {
    pub(crate) async fn open(&self) -> Open {
        self.open_with(&[]).await
    }

    /// With more variables.
    pub(crate) async fn open_with(&self, variables: &[(&str, &str)]) -> Open {
        let usual = [("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8")];
        let program = Program::serve(&self.place.db(), &[&usual, variables].concat()).await;
        Open { client: program.client.clone(), program }
    }

    /// A subscription of one endpoint to everything, with short waits, so that a test sees several of them.
    pub(crate) fn terms(&self, endpoint: &str) -> Value {
        json!({ "url": self.receiver.url(endpoint), "event_types": ["*"], "base_delay": "50ms", "timeout": "10s" })
    }
}

/// These terms with others in place of some of them.
pub(crate) fn with(mut terms: Value, others: Value) -> Value {
    let Value::Object(others) = others else { panic!("{others} names nothing") };
    terms.as_object_mut().unwrap().extend(others);
    terms
}

/// The number under this name.
#[track_caller]
pub(crate) fn number(of: &Value, name: &str) -> i64 {
    of[name].as_i64().unwrap_or_else(|| panic!("no {name}: {of}"))
}

#[track_caller]
pub(crate) fn expect(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    answer.json()
}

impl Open {
    pub(crate) async fn subscribe(&self, terms: &Value) -> Value {
        expect(&self.client.post("/v1/webhooks/subscriptions", terms).await, 201)
    }

    pub(crate) async fn change(&self, subscription: i64, change: &Value) -> Answer {
        let path = format!("/v1/webhooks/subscriptions/{subscription}");
        self.client.send(Method::PATCH, &path, &JSON, change.to_string()).await
    }

    /// Tells a new event of the type `order.created`.
    pub(crate) async fn tell(&self, id: &str) -> Value {
        self.tell_of("order.created", id).await
    }

    pub(crate) async fn tell_of(&self, kind: &str, id: &str) -> Value {
        let event = json!({ "type": kind, "id": id, "payload": { "order": id } });
        expect(&self.client.post("/v1/webhooks/events", &event).await, 202)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        expect(&self.client.get(path).await, 200)
    }

    pub(crate) async fn delivery(&self, id: i64) -> Value {
        self.get(&format!("/v1/webhooks/deliveries/{id}")).await
    }

    /// All deliveries of an event, the oldest first.
    pub(crate) async fn deliveries_of(&self, event: &Value) -> Vec<Value> {
        let page = self.get(&format!("/v1/webhooks/deliveries?event_id={}", event["event_id"])).await;
        let mut items = page["items"].as_array().unwrap().clone();
        items.reverse();
        items
    }

    /// The only delivery of an event, once it stands there.
    pub(crate) async fn becomes(&self, event: &Value, status: &str) -> Value {
        let [delivery] = self.deliveries_of(event).await.try_into().unwrap();
        self.comes_to(number(&delivery, "id"), status).await
    }

    /// A delivery with its attempts, once it stands there.
    pub(crate) async fn comes_to(&self, delivery: i64, status: &str) -> Value {
        self.comes_to_any(delivery, &[status]).await
    }

    /// A delivery with its attempts, once it has one of these statuses.
    pub(crate) async fn comes_to_any(&self, delivery: i64, statuses: &[&str]) -> Value {
        within(async {
            loop {
                let found = self.delivery(delivery).await;
                if statuses.iter().any(|status| found["status"] == *status) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }

    pub(crate) async fn kill(mut self) {
        self.program.child.kill().await.unwrap();
    }
}
