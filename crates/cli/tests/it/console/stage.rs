//! A server with keys of every role, services, and data of every product.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::console::browser::Browser;
use crate::console::services::Services;
use crate::support::program::output_of;
use crate::support::{Answer, Client, Place, Program, on_both, within};

pub(crate) const ROLES: [&str; 5] = ["viewer", "client", "worker", "operator", "admin"];

/// A machine that everything can be done with.
pub(crate) const PARCEL: &str = "
name: parcel
initial: packed
states: [packed, sent, held, delivered]
terminal: [delivered]
pause: { held: sent }
edges: [[packed, sent], [sent, held], [sent, delivered]]
can_fail: [packed, sent]
error_kinds: [nobody_home]
";

/// A running server and its users.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) services: Services,
    pub(crate) program: Program,
    /// The API as an administrator.
    pub(crate) api: Client,
    keys: Vec<String>,
    _folder: TempDir,
}

/// Plays a scene on each kind of database.
pub(crate) async fn on_both_stores(scene: impl AsyncFn(Stage)) {
    on_both(async |place| scene(Stage::open(place).await).await).await;
}

/// A key that is called as its role is.
async fn create_key(db: &str, role: &str) -> String {
    let made = output_of(&["keys", "create", "--role", role, "--name", role, "--db", db]).await;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

impl Stage {
    pub(crate) async fn open(place: Place) -> Self {
        let mut keys = Vec::new();
        for role in ROLES {
            keys.push(create_key(&place.db(), role).await);
        }
        let services = Services::start().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backstitch.toml");
        let topic = "[outbox.topics.parcels]\nadapter = \"http\"\nbackoff = [\"10ms\"]\n";
        let many = "[outbox.topics.\"many.*\"]\nadapter = \"log\"\n";
        std::fs::write(&path, format!("{topic}url = \"{}\"\n{many}", services.url("topic"))).unwrap();
        let path = path.display().to_string();
        let variables = [
            ("BACKSTITCH_CONFIG", path.as_str()),
            ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
            ("BACKSTITCH_SAGAS_TICK", "50ms"),
        ];
        let program = Program::serve(&place.db(), &variables).await;
        let api = program.client.with_key(&keys[4]);
        Self { place, services, program, api, keys, _folder: folder }
    }

    pub(crate) fn key(&self, role: &str) -> &str {
        &self.keys[ROLES.iter().position(|known| *known == role).unwrap()]
    }

    /// A signed-in user.
    pub(crate) async fn as_role(&self, role: &str) -> Browser {
        Browser::signed_in(&self.program.client, self.key(role)).await
    }

    /// Declares a saga of two calls, `first` and `second`, which are undone by `undo-first` and `undo-second`.
    pub(crate) async fn declare(&self, name: &str) {
        let step = |id: &str| {
            json!({
                "id": id, "retry": 0,
                "action": { "http": { "url": self.services.url(id) } },
                "compensate": { "http": { "url": self.services.url(&format!("undo-{id}")) }, "retry": 0 },
            })
        };
        let saga = json!({ "name": name, "steps": [step("first"), step("second")] });
        let path = format!("/v1/definitions/{name}?apply=true");
        expect(&self.put(&path, &saga.to_string()).await, 201);
    }

    /// A saga that waits for a worker who never comes, after a first call.
    pub(crate) async fn declare_waiting(&self, name: &str) {
        let undo = json!({ "http": { "url": self.services.url("undo-first") }, "retry": 0 });
        let first = json!({
            "id": "first", "action": { "http": { "url": self.services.url("first") } }, "compensate": undo,
        });
        let saga = json!({ "name": name, "steps": [first, { "id": "wait", "action": { "worker": { "queue": "nobody" } }, "timeout": "1h" }] });
        expect(&self.put(&format!("/v1/definitions/{name}?apply=true"), &saga.to_string()).await, 201);
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.api.send(Method::PUT, path, &[("content-type", "application/yaml")], body.to_owned()).await
    }

    /// Starts one, and waits until its worker is wanted.
    pub(crate) async fn start_waiting(&self, name: &str) -> String {
        let id = self.api.start(&json!({ "definition": name, "correlation_id": "c-1" })).await;
        self.until(&format!("/v1/sagas/{id}/log"), |log| log.to_string().contains("\"wait\"")).await;
        id
    }

    /// A saga whose rollback could not be finished.
    pub(crate) async fn stuck(&self, name: &str) -> String {
        self.services.answer("second", 400, "no");
        self.services.answer("undo-first", 400, "it stays");
        let saga = self.api.run(&json!({ "definition": name })).await;
        assert_eq!(saga["status"], "failed", "{saga}");
        saga["id"].as_str().unwrap().to_owned()
    }

    /// Declares a saga of two calls that are undone whether or not the other one can be, and a third one.
    pub(crate) async fn declare_stuck_twice(&self, name: &str) {
        let undone = |id: &str| {
            json!({
                "id": id, "retry": 0, "depends_on": [],
                "action": { "http": { "url": self.services.url(id) } },
                "compensate": { "http": { "url": self.services.url(&format!("undo-{id}")) }, "retry": 0 },
            })
        };
        let last = json!({
            "id": "last", "depends_on": ["first", "other"], "retry": 0,
            "action": { "http": { "url": self.services.url("last") } },
        });
        let steps = json!([undone("first"), undone("other"), last]);
        let saga = json!({ "name": name, "continue_on_compensation_failure": true, "steps": steps });
        expect(&self.put(&format!("/v1/definitions/{name}?apply=true"), &saga.to_string()).await, 201);
    }

    /// One of them, with neither undone.
    pub(crate) async fn stuck_twice(&self, name: &str) -> String {
        self.services.answer("last", 400, "no");
        self.services.answer("undo-first", 400, "it stays");
        self.services.answer("undo-other", 400, "it stays too");
        let saga = self.api.run(&json!({ "definition": name })).await;
        assert_eq!(saga["status"], "failed", "{saga}");
        saga["id"].as_str().unwrap().to_owned()
    }

    /// What the API says, once it is so.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        within(async {
            loop {
                let found = expect(&self.api.get(path).await, 200);
                if holds(&found) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }

    /// Waits for this event in the log: a request is durable at once, and carried out a moment later.
    pub(crate) async fn logged(&self, saga: &str, words: &str) {
        let path = format!("/v1/sagas/{saga}/log?limit=1000");
        self.until(&path, |log| log.to_string().contains(words)).await;
    }

    pub(crate) async fn log(&self, saga: &str) -> String {
        expect(&self.api.get(&format!("/v1/sagas/{saga}/log?limit=1000")).await, 200).to_string()
    }

    /// A subscription of this service to everything, which gives up after its first attempt.
    pub(crate) async fn subscribe(&self, service: &str) -> i64 {
        let terms = json!({ "url": self.services.url(service), "event_types": ["*"], "max_retry_limit": 1 });
        let made = expect(&self.api.post("/v1/webhooks/subscriptions", &terms).await, 201);
        made["id"].as_i64().unwrap()
    }

    /// Tells an event, and waits until its only delivery stands there.
    pub(crate) async fn tell(&self, id: &str, status: &str) -> i64 {
        let event = json!({ "type": "order.created", "id": id, "payload": { "order": id } });
        let told = expect(&self.api.post("/v1/webhooks/events", &event).await, 202);
        let path = format!("/v1/webhooks/deliveries?event_id={}", told["event_id"]);
        let found = self.until(&path, |page| page["items"][0]["status"] == status).await;
        found["items"][0]["id"].as_i64().unwrap()
    }

    /// An aborted message.
    pub(crate) async fn aborted(&self, key: &str) -> i64 {
        self.services.answer("topic", 400, "no");
        let message = json!({ "topic": "parcels", "idempotency_key": key, "payload": { "parcel": key } });
        let id = expect(&self.api.post("/v1/outbox", &message).await, 202)["id"].as_i64().unwrap();
        self.until(&format!("/v1/outbox/{id}"), |message| message["status"] == "aborted").await;
        id
    }

    pub(crate) async fn declare_parcel(&self) {
        expect(&self.put("/v1/lifecycles/parcel?apply=true", PARCEL).await, 201);
    }

    /// The newest entries of the audit: role, method and path, and status.
    pub(crate) async fn audited(&self, count: usize) -> Vec<String> {
        let page = expect(&self.api.get(&format!("/v1/audit?limit={count}")).await, 200);
        let told = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}: {}", text("key"), text("method"), text("path"), entry["status"])
        };
        page["items"].as_array().unwrap().iter().map(told).collect()
    }
}

#[track_caller]
pub(crate) fn expect(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    answer.json()
}
