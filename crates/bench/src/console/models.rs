//! Model rows of each kind, written by the server itself: the store is filled with their copies.

use backstitch::SagaId;
use hyper::Method;
use serde_json::{Value, json};

use super::Failure;
use crate::http::client::Client;
use crate::http::orders;
use crate::http::services::{REFUSED, STUCK, Services};

/// A saga and its copies per thousand.
pub(super) struct Model {
    pub(super) saga: SagaId,
    pub(super) share: usize,
    /// Whether only its start is copied, as if no node had adopted it yet.
    pub(super) only_begun: bool,
}

/// All models.
pub(super) struct Models(pub(super) Vec<Model>);

/// Definitions with ending sagas: how many per thousand succeed, are compensated, and fail.
const ENDING: [(&str, [usize; 3]); 4] = [
    ("checkout", [300, 20, 5]),
    ("renewal", [200, 20, 5]),
    ("refund", [150, 10, 0]),
    ("report", [280, 0, 0]),
];
/// Definitions with sagas that wait for a missing worker, forwards and during the rollback.
pub(super) const WAITING: &str = "parcel";
const GOING_BACK: &str = "return";
/// The machine of the instances.
pub(super) const MACHINE: &str = "letter";
const SUBSCRIPTIONS: usize = 5;
/// Time limit for a saga's end, in seconds.
const PATIENCE: &str = "wait=50";

impl Models {
    pub(super) async fn make(client: &Client, services: &Services) -> Result<Self, Failure> {
        let mut models = Vec::new();
        let undo = json!({"http": {"url": services.url("/payment/undo")}, "retry": 0});
        for (name, shares) in ENDING {
            declare(client, name, &paid(services, &undo)).await?;
            for (customer, share) in ["well", REFUSED, STUCK].into_iter().zip(shares) {
                if share > 0 {
                    let saga = start(client, name, customer, PATIENCE).await?;
                    models.push(Model { saga, share, only_begun: false });
                }
            }
        }
        let pack = json!([{"id": "pack", "action": {"worker": {"queue": "nobody"}}, "timeout": "30d"}]);
        declare(client, WAITING, &pack).await?;
        declare(client, GOING_BACK, &paid(services, &json!({"worker": {"queue": "nobody"}}))).await?;
        let running = start(client, WAITING, "well", "wait=0").await?;
        let paused = start(client, WAITING, "well", "wait=0").await?;
        client.call(Method::POST, &format!("/v1/sagas/{paused}/pause"), Some(&json!({}))).await?.good()?;
        let going_back = start(client, GOING_BACK, REFUSED, "wait=2").await?;
        for (saga, share, only_begun) in
            [(running, 6, false), (paused, 1, false), (running, 1, true), (going_back, 2, false)]
        {
            models.push(Model { saga, share, only_begun });
        }
        orders::configure(client, services).await?;
        subscribe(client, services).await?;
        live(client).await?;
        Ok(Self(models))
    }
}

fn http(services: &Services, path: &str) -> Value {
    json!({"http": {"url": services.url(path)}})
}

/// A payment with this compensation, and an inventory step that may fail.
fn paid(services: &Services, undo: &Value) -> Value {
    json!([
        {"id": "payment", "action": http(services, "/payment/do"), "compensate": undo},
        {"id": "inventory", "action": http(services, "/inventory/do")},
    ])
}

async fn declare(client: &Client, name: &str, steps: &Value) -> Result<(), Failure> {
    let path = format!("/v1/definitions/{name}?apply=true");
    client.call(Method::PUT, &path, Some(&json!({"name": name, "steps": steps}))).await?.good()?;
    Ok(())
}

async fn start(client: &Client, definition: &str, customer: &str, wait: &str) -> Result<SagaId, Failure> {
    let wish = json!({
        "definition": definition, "correlation_id": "a model",
        "input": {"customer": customer, "items": [{"sku": "A-100", "quantity": 2}], "amount": "19.90"},
        "attributes": {"tenant": "models"},
    });
    let started =
        client.call(Method::POST, &format!("/v1/sagas?{wait}"), Some(&wish)).await?.good()?.json()?;
    let id = started["id"].as_str().ok_or("a saga has no id")?;
    Ok(id.parse().map_err(|_| format!("`{id}` is no id of a saga"))?)
}

async fn subscribe(client: &Client, services: &Services) -> Result<(), Failure> {
    for number in 0..SUBSCRIPTIONS {
        let url = services.url(&format!("/hook/{number}"));
        let terms = json!({"url": url, "event_types": ["order.*"]});
        client.call(Method::POST, "/v1/webhooks/subscriptions", Some(&terms)).await?.good()?;
    }
    Ok(())
}

/// An instance in each possible state.
async fn live(client: &Client) -> Result<(), Failure> {
    let machine = json!({
        "name": MACHINE, "initial": "written", "states": ["written", "sent", "read"], "terminal": ["read"],
        "edges": [["written", "sent"], ["sent", "read"]], "can_fail": ["written", "sent"],
    });
    client
        .call(Method::PUT, &format!("/v1/lifecycles/{MACHINE}?apply=true"), Some(&machine))
        .await?
        .good()?;
    let given = json!({"correlation_id": "a model", "input": {"to": "ada"}});
    for (key, way) in
        [("one", &["sent"][..]), ("two", &["sent", "read"]), ("three", &[]), ("four", &["failed"])]
    {
        let path = |what: &str| format!("/v1/lifecycles/{MACHINE}/{key}/{what}");
        client.call(Method::POST, &path("start"), Some(&given)).await?.good()?;
        for state in way {
            let (what, body) = match *state {
                "failed" => ("fail", json!({"error_kind": "internal", "message": "lost on its way"})),
                to => ("transition", json!({"to": to})),
            };
            client.call(Method::POST, &path(what), Some(&body)).await?.good()?;
        }
    }
    Ok(())
}
