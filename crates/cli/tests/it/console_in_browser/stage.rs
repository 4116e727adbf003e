//! A server with data of every kind, keys of every role, and a browser.

use std::collections::HashMap;

use backstitch_demo::services::{Behaviour, Services as DemoServices};
use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::console::services::Services;
use crate::console_in_browser::screen::Screen;
use crate::support::population::Population;
use crate::support::program::{expire_key, output_of};
use crate::support::{Client, Program, create_key, within};

pub(crate) struct Stage {
    pub(crate) server: Program,
    pub(crate) admin: Client,
    pub(crate) population: Population,
    /// Scripted services: `topic` receives the messages of the topic `parcels`.
    pub(crate) services: Services,
    keys: HashMap<&'static str, String>,
    db: String,
    config: String,
    _demo: DemoServices,
    _folder: TempDir,
}

const SETTINGS: [(&str, &str); 3] = [
    ("BACKSTITCH_ORDERS_ROLLBACK_RETRIES", "0"),
    ("BACKSTITCH_EGRESS_ALLOW", "127.0.0.0/8"),
    ("BACKSTITCH_LOG", "warn"),
];

fn settings(config: &str) -> Vec<(&str, &str)> {
    SETTINGS.into_iter().chain([("BACKSTITCH_CONFIG", config)]).collect()
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = format!("sqlite:{}", folder.path().join("backstitch.db").display());
        let mut keys = HashMap::new();
        for role in ["viewer", "operator", "admin"] {
            keys.insert(role, create_key(&db, role).await);
        }
        let (demo, services) =
            (DemoServices::start(Behaviour::Succeed).await.unwrap(), Services::start().await);
        let config = folder.path().join("backstitch.toml");
        let topic = format!(
            "[outbox.topics.parcels]\nadapter = \"http\"\nbackoff = [\"10ms\"]\nurl = \"{}\"\n",
            services.url("topic")
        );
        std::fs::write(&config, topic).unwrap();
        let config = config.display().to_string();
        let server = Program::logging_to(std::process::Stdio::null(), &db, &settings(&config)).await;
        let admin = server.client.with_key(&keys["admin"]);
        let population = Population::settle(&admin, &demo).await;
        Self { server, admin, population, services, keys, db, config, _demo: demo, _folder: folder }
    }

    /// What an administrator declares.
    pub(crate) async fn put(&self, path: &str, body: &str) {
        let yaml = [("content-type", "application/yaml")];
        let answer = self.admin.send(Method::PUT, path, &yaml, body.to_owned()).await;
        assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
    }

    /// What an administrator asks for, and is given.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.admin.post(path, body).await;
        assert!(matches!(answer.status, 200..300), "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.admin.get(path).await.json()
    }

    /// What the API says, once it is so.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        within(async {
            loop {
                let found = self.get(path).await;
                if holds(&found) {
                    return found;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Sends an event about a parcel.
    pub(crate) async fn tell(&self, id: &str) {
        let event = json!({ "type": "parcel.sent", "id": id, "payload": { "parcel": id } });
        self.post("/v1/webhooks/events", &event).await;
    }

    /// A key that is good for an hour, unless [`Stage::expire_guest`] shortens that.
    pub(crate) async fn guest_key(&self, role: &str) -> String {
        let made =
            ["keys", "create", "--role", role, "--name", "a guest", "--expires", "1h", "--db", &self.db];
        let made = output_of(&made).await;
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    /// Lets the key of the guest expire in a moment.
    pub(crate) fn expire_guest(&self) {
        expire_key(&self.db, "a guest");
    }

    /// Parks a made-up item for an hour.
    pub(crate) fn park(&self, area: &str, item: &str) {
        let connection = rusqlite::Connection::open(self.db.strip_prefix("sqlite:").unwrap()).unwrap();
        connection.busy_timeout(backstitch_testkit::PATIENCE).unwrap();
        let park = "insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
                    values (?1, ?2, 'duplicate key', 1, unixepoch() * 1000000, (unixepoch() + 3600) * 1000000)";
        connection.execute(park, [area, item]).unwrap();
    }

    /// Takes a role's key away.
    pub(crate) async fn revoke(&self, role: &str) {
        let listed = output_of(&["keys", "list", "--json", "--db", &self.db]).await;
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let keys = listed["items"].as_array().unwrap_or_else(|| panic!("{listed}"));
        let number = keys.iter().find(|key| key["role"] == role).unwrap()["id"].to_string();
        let revoked = output_of(&["keys", "revoke", &number, "--db", &self.db]).await;
        assert!(revoked.status.success(), "{revoked:?}");
    }

    /// A browser with a session of this role.
    pub(crate) async fn signed_in(&self, role: &'static str) -> Screen {
        let screen = Screen::on(self.server.client.address).await;
        screen.sign_in(&self.keys[role]).await;
        screen
    }

    pub(crate) fn key(&self, role: &str) -> &str {
        &self.keys[role]
    }

    /// Ends the server at once, lets something happen through another one at another address, and starts it again.
    pub(crate) async fn elsewhere(&mut self, meanwhile: impl AsyncFnOnce(Client)) {
        let address = self.server.client.address.to_string();
        self.server.child.kill().await.unwrap();
        self.server = Program::logging_to(std::process::Stdio::null(), &self.db, &SETTINGS).await;
        meanwhile(self.server.client.with_key(&self.keys["admin"])).await;
        self.server.child.kill().await.unwrap();
        self.server = Program::listening_on(&address, &self.db, &SETTINGS).await;
    }

    /// Ends the server at once and starts it again at the same address.
    pub(crate) async fn restart(&mut self) {
        self.server.child.kill().await.unwrap();
        let address = self.server.client.address.to_string();
        self.server = Program::listening_on(&address, &self.db, &settings(&self.config)).await;
    }
}
