//! Data for the fuzzed server, so that generated requests find something.

use backstitch_demo::services::{Phase, Service, Services};
use hyper::Method;
use serde_json::{Value, json};

use crate::support::{Client, within};

/// Sagas in every state, an order, a leased job, an undeliverable webhook, and lifecycles.
pub(crate) struct Population {
    pub(crate) waiting: Vec<String>,
    pub(crate) ended: Vec<String>,
    pub(crate) orders: Vec<String>,
    pub(crate) jobs: Vec<i64>,
    pub(crate) tokens: Vec<i64>,
    pub(crate) subscriptions: Vec<i64>,
    pub(crate) events: Vec<i64>,
    pub(crate) deliveries: Vec<i64>,
}

/// The machines there are: built in, declared, and only staged.
pub(crate) const MACHINES: [&str; 3] = ["site-provisioning", "letter", "postcard"];
/// Active and ended lifecycles.
pub(crate) const UNDER_WAY: [&str; 2] = ["l-1", "l-2"];
pub(crate) const ENDED: [&str; 2] = ["e-1", "e-2"];

/// The names that definitions have.
pub(crate) const DEFINITIONS: [&str; 4] = ["parcel", "doomed", "stuck", "staged"];

impl Population {
    pub(crate) async fn settle(admin: &Client, services: &Services) -> Self {
        declare(admin, services).await;
        begin_lifecycles(admin).await;
        reopen_services(admin, services).await;
        let mut orders = Vec::new();
        for (sku, outcome) in
            [("book", "complete"), ("demo:refuse:logistics demo:refuse-undo:payment", "rollback_failed")]
        {
            let confirmed = admin.post("/v1/orders", &order(sku)).await.json();
            let tx_id = confirmed["tx_id"].as_str().unwrap_or_else(|| panic!("{confirmed}")).to_owned();
            let ended = admin.ended_order(&tx_id).await;
            assert_eq!(ended["outcome"], outcome, "{ended}");
            orders.push(tx_id);
        }

        let running = admin
            .start(&json!({ "definition": "parcel", "correlation_id": "c", "attributes": { "a": "b" } }))
            .await;
        let leased = admin.lease(&json!({ "queues": ["packing"], "lease_seconds": 3600 })).await;
        let job = leased[0].clone();
        let paused = admin.start(&json!({ "definition": "parcel" })).await;
        assert_eq!(admin.post(&format!("/v1/sagas/{paused}/pause"), &json!({})).await.status, 202);
        let waiting = vec![running, paused];
        let mut ended = Vec::new();
        for (definition, status) in [("doomed", "compensated"), ("stuck", "failed")] {
            let saga = admin.run(&json!({ "definition": definition })).await;
            assert_eq!(saga["status"], status, "{saga}");
            ended.push(saga["id"].as_str().unwrap().to_owned());
        }
        let number = |name: &str| job[name].as_i64().unwrap_or_else(|| panic!("{job}"));
        let (subscription, event, delivery) = give_up_a_webhook(admin, services).await;
        Self {
            waiting,
            ended,
            orders,
            jobs: vec![number("job_id")],
            tokens: vec![number("token")],
            subscriptions: vec![subscription],
            events: vec![event],
            deliveries: vec![delivery],
        }
    }

    fn sagas(&self) -> impl Iterator<Item = &String> {
        self.waiting.iter().chain(&self.ended).chain(&self.orders)
    }

    /// Nothing is lost, and lists can be read to their ends.
    pub(crate) async fn is_still_there(&self, admin: &Client) {
        for id in self.sagas() {
            assert_eq!(admin.get(&format!("/v1/sagas/{id}")).await.status, 200);
        }
        let mut listed = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = admin.get(&format!("/v1/sagas?limit=50{cursor}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            let page = page.json();
            listed.extend(
                page["items"].as_array().unwrap().iter().map(|saga| saga["id"].as_str().unwrap().to_owned()),
            );
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        for id in self.sagas() {
            assert!(listed.contains(id), "{id} is not listed");
        }
    }
}

/// A subscription, an event, and its delivery, which is a dead letter.
async fn give_up_a_webhook(admin: &Client, services: &Services) -> (i64, i64, i64) {
    let url = format!("http://{}/nothing", services.address());
    let terms = json!({ "url": url, "event_types": ["order.*"], "max_retry_limit": 1 });
    let made = admin.post("/v1/webhooks/subscriptions", &terms).await.json();
    let told = json!({ "type": "order.created", "id": "o-1", "payload": { "order": 1 } });
    let told = admin.post("/v1/webhooks/events", &told).await.json();
    let number = |of: &Value, name: &str| of[name].as_i64().unwrap_or_else(|| panic!("{of}"));
    let delivery = within(async {
        loop {
            let given_up = admin.get("/v1/webhooks/dead-letters").await.json();
            if let Some(id) = given_up["items"][0]["id"].as_i64() {
                return id;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    (number(&made, "id"), number(&told, "event_id"), delivery)
}

/// Letters and sites, some of them at their end.
async fn begin_lifecycles(admin: &Client) {
    let machine = |name: &str| json!({ "name": name, "initial": "open", "states": ["open", "shut"], "terminal": ["shut"], "edges": [["open", "shut"]], "can_fail": ["open"] });
    put(admin, "/v1/lifecycles/letter?apply=true", &machine("letter")).await;
    put(admin, "/v1/lifecycles/postcard", &machine("postcard")).await;
    for machine in ["letter", "site-provisioning"] {
        let path = |key: &str, what: &str| format!("/v1/lifecycles/{machine}/{key}/{what}");
        for key in UNDER_WAY.into_iter().chain(ENDED) {
            let started =
                admin.post(&path(key, "start"), &json!({ "correlation_id": "c", "input": { "a": 1 } })).await;
            assert_eq!(started.status, 202, "{started:?}");
        }
        for key in ENDED {
            let why = json!({ "error_kind": "internal", "message": "torn" });
            assert_eq!(admin.post(&path(key, "fail"), &why).await.status, 200);
        }
    }
}

fn order(sku: &str) -> Value {
    let items: Vec<Value> = sku.split(' ').map(|sku| json!({ "sku": sku, "quantity": 1 })).collect();
    json!({ "order_id": "o-1", "customer_id": "c-1", "items": items, "amount": "19.90" })
}

async fn put(admin: &Client, path: &str, body: &Value) {
    let headers = [("content-type", "application/json")];
    let answer = admin.send(Method::PUT, path, &headers, body.to_string()).await;
    assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
}

async fn declare(admin: &Client, services: &Services) {
    let call = |service, phase| json!({ "http": { "url": services.url(service, phase) } });
    let nowhere = json!({ "http": { "url": "http://127.0.0.1:9/" }, "retry": 0 });
    // A worker would have to take it for this to end, and the services know no such path.
    let refused = json!({ "http": { "url": format!("http://{}/nothing", services.address()) } });
    let pack = json!({ "id": "pack", "action": { "worker": { "queue": "packing" } }, "compensate": { "worker": { "queue": "unpacking" } } });
    let pay = |undo: &Value| json!({ "id": "pay", "action": call(Service::Payment, Phase::Do), "compensate": undo });
    let fail = json!({ "id": "fail", "action": refused });
    let undo = call(Service::Payment, Phase::Undo);
    for (name, steps) in [
        ("parcel", json!([pack])),
        ("doomed", json!([pay(&undo), fail])),
        ("stuck", json!([pay(&nowhere), fail])),
    ] {
        put(admin, &format!("/v1/definitions/{name}?apply=true"), &json!({ "name": name, "steps": steps }))
            .await;
    }
    put(admin, "/v1/definitions/staged", &json!({ "name": "staged", "steps": [pack] })).await;
}

/// Says where the services are and how long they may take, whatever was said before.
pub(crate) async fn reopen_services(admin: &Client, services: &Services) {
    let endpoint = |service| json!({ "url": services.url(service, Phase::Do), "rollback_url": services.url(service, Phase::Undo) });
    let endpoints = json!({
        "payment": endpoint(Service::Payment),
        "inventory": endpoint(Service::Inventory),
        "logistics": endpoint(Service::Logistics),
    });
    let patient = json!({ "payment": "30s", "inventory": "60s", "logistics": "120s" });
    for (setting, value) in [("services", json!({ "endpoints": endpoints })), ("timeouts", patient)] {
        put(admin, &format!("/v1/admin/config/{setting}"), &value).await;
        let applied = admin.post(&format!("/v1/admin/config/{setting}/apply"), &json!({})).await;
        assert_eq!(applied.status, 200, "{applied:?}");
    }
}
