//! A server for order requests, and requests to it and its database.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::acceptance_seed_003::broker::{Broker, Mood};
use crate::support::{Answer, Client, Place, Program, on_both, within};

/// Short waits, so that a test sees several of them.
pub(crate) const BACKOFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];

/// A database, a broker, and the settings that lead from one to the other.
pub(crate) struct Desk {
    pub(crate) place: Place,
    pub(crate) broker: Broker,
    folder: TempDir,
}

/// Plays a scene on each kind of database.
pub(crate) async fn on_both_stores(mood: Mood, scene: impl AsyncFn(Desk)) {
    on_both(async |place| {
        let (broker, folder) = (Broker::start(mood).await, tempfile::tempdir().unwrap());
        scene(Desk { place, broker, folder }).await;
    })
    .await;
}

/// A server that is running.
pub(crate) struct Open {
    pub(crate) client: Client,
    pub(crate) program: Program,
}

impl Desk {
    pub(crate) async fn open(&self) -> Open {
        self.open_with("", &[]).await
    }

    /// With more settings for the topic of orders, and other variables.
    pub(crate) async fn open_with(&self, settings: &str, variables: &[(&str, &str)]) -> Open {
        let mut config = String::from("[outbox.topics.orders]\nadapter = \"http\"\n");
        writeln!(config, "url = \"{}\"", self.broker.url()).unwrap();
        if !settings.contains("backoff") {
            writeln!(config, "backoff = [\"50ms\", \"100ms\"]").unwrap();
        }
        config.push_str(settings);
        let path = self.folder.path().join("backstitch.toml");
        std::fs::write(&path, config).unwrap();
        let path = path.display().to_string();
        let usual = [("BACKSTITCH_CONFIG", path.as_str()), ("BACKSTITCH_SAGAS_TICK", "50ms")];
        let program = Program::serve(&self.place.db(), &[&usual, variables].concat()).await;
        Open { client: program.client.clone(), program }
    }

    /// One column of one row.
    pub(crate) async fn value(&self, sql: &str) -> Option<String> {
        self.place.rows(sql).await.into_iter().next()?.into_iter().next()?
    }

    pub(crate) async fn ledger(&self, key: &str) -> Option<String> {
        let sql =
            format!("select state from idempotency_ledger where scope = 'outbox/orders' and key = '{key}'");
        self.value(&sql).await
    }
}

pub(crate) fn order(key: &str) -> Value {
    json!({ "idempotency_key": key, "symbol": "7203.T", "side": "BUY", "quantity": 100, "tags": ["a", "b"] })
}

impl Open {
    pub(crate) async fn ask(&self, request: &Value) -> Answer {
        self.client.post("/do/order", request).await
    }

    /// Asks for what must be new, and gives the message's number.
    pub(crate) async fn accepted(&self, key: &str) -> i64 {
        let answer = self.ask(&order(key)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_i64().unwrap()
    }

    pub(crate) async fn message(&self, id: i64) -> Value {
        let answer = self.client.get(&format!("/v1/outbox/{id}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Waits until a message stands there.
    pub(crate) async fn becomes(&self, id: i64, status: &str) -> Value {
        within(async {
            loop {
                let message = self.message(id).await;
                if message["status"] == status {
                    return message;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }
}
