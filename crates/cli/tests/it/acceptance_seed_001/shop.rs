//! A server for orders, as customers and administrators use it.

use backstitch_testkit::postgres::{Signal, send_signal};
use hyper::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, EventStream, Program};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A server in a process of its own.
pub(crate) struct Shop {
    pub(crate) program: Program,
    pub(crate) client: Client,
}

/// An order that has these wishes about the services: `refuse:inventory`.
pub(crate) fn order(wishes: &[&str]) -> Value {
    let wishes = wishes.iter().map(|wish| json!({"sku": format!("demo:{wish}"), "quantity": 1}));
    let items: Vec<Value> = std::iter::once(json!({"sku": "book", "quantity": 2})).chain(wishes).collect();
    json!({"order_id": "o-17", "customer_id": "c-4", "items": items, "amount": 19.90})
}

impl Shop {
    /// Confirms an order and gives its transaction.
    pub(crate) async fn confirm(&self, wishes: &[&str]) -> String {
        let answer = self.client.post("/v1/orders", &order(wishes)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        text(&answer.json()["tx_id"])
    }

    pub(crate) async fn order(&self, tx: &str) -> Value {
        let answer = self.client.get(&format!("/v1/orders/{tx}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// What the customer would be told of an order now.
    pub(crate) async fn outcome(&self, tx: &str) -> String {
        text(&self.order(tx).await["outcome"])
    }

    /// Waits for the end of an order.
    pub(crate) async fn end(&self, tx: &str) -> Value {
        self.client.ended_order(tx).await
    }

    /// Waits for the end of an order, which must be this one.
    #[track_caller]
    pub(crate) fn ends(&self, tx: &str, outcome: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let order = self.end(tx).await;
            assert_eq!(order["outcome"], outcome, "at {place}: {order}");
        }
    }

    /// Confirms an order that must end so.
    pub(crate) async fn run(&self, wishes: &[&str], outcome: &str) -> String {
        let tx = self.confirm(wishes).await;
        let order = self.end(&tx).await;
        assert_eq!(order["outcome"], outcome, "{wishes:?}: {order}");
        tx
    }

    /// The transaction log.
    pub(crate) async fn entries(&self, tx: &str) -> Vec<Value> {
        list(&self.client.get(&format!("/v1/orders/{tx}/log")).await.json()["items"])
    }

    /// The same in words: `U payment`.
    pub(crate) async fn log(&self, tx: &str) -> Vec<String> {
        let words = |entry: &Value| {
            let service = entry["service"].as_str().map(|service| format!(" {service}"));
            format!("{}{}", entry["status"].as_str().unwrap(), service.unwrap_or_default())
        };
        self.entries(tx).await.iter().map(words).collect()
    }

    /// Everything the engine recorded about an order.
    pub(crate) async fn history(&self, tx: &str) -> Vec<Value> {
        list(&self.client.get(&format!("/v1/sagas/{tx}/log?limit=1000")).await.json()["items"])
    }

    pub(crate) async fn follow(&self, tx: &str, last: Option<u64>) -> EventStream {
        EventStream::open(&self.client, &format!("/v1/orders/{tx}/events"), last).await
    }

    /// What the customer read from the beginning to the end.
    pub(crate) async fn messages(&self, tx: &str) -> Vec<String> {
        let sent = self.follow(tx, None).await.rest().await;
        sent.iter().filter_map(|event| event.data["message"].as_str()).map(str::to_owned).collect()
    }

    pub(crate) async fn config(&self, kind: &str) -> Value {
        self.client.get(&format!("/v1/admin/config/{kind}")).await.json()
    }

    pub(crate) async fn stage(&self, kind: &str, change: &Value) -> Answer {
        let path = format!("/v1/admin/config/{kind}");
        self.client.send(Method::PUT, &path, &JSON, change.to_string()).await
    }

    pub(crate) async fn apply(&self, kind: &str) -> Answer {
        self.client.send(Method::POST, &format!("/v1/admin/config/{kind}/apply"), &[], "").await
    }

    pub(crate) async fn discard(&self, kind: &str) -> Answer {
        self.client.send(Method::DELETE, &format!("/v1/admin/config/{kind}/staged"), &[], "").await
    }

    /// Stages a change and applies it.
    pub(crate) async fn change(&self, kind: &str, change: &Value) {
        let staged = self.stage(kind, change).await;
        assert_eq!(staged.status, 200, "{staged:?}");
        let applied = self.apply(kind).await;
        assert_eq!(applied.status, 200, "{applied:?}");
    }

    pub(crate) async fn alerts(&self) -> Vec<Value> {
        list(&self.client.get("/v1/admin/alerts").await.json()["items"])
    }

    /// kill -9.
    pub(crate) async fn kill(mut self) {
        self.program.child.kill().await.unwrap();
    }

    /// From now on the process does nothing, but is there.
    pub(crate) fn freeze(&self) {
        send_signal(&[self.program.child.id().unwrap()], Signal::Stop).unwrap();
    }
}

/// Reads a stream until an event of this type, about this step if one is named, and gives what the customer reads.
pub(crate) async fn told(stream: &mut EventStream, kind: &str, step: Option<&str>) -> String {
    loop {
        let event = stream.next().await.unwrap_or_else(|| panic!("the stream ended without {kind} {step:?}"));
        if event.name == kind && (step.is_none() || event.data["step"].as_str() == step) {
            return text(&event.data["message"]);
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).clone()
}
