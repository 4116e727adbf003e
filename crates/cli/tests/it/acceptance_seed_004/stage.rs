//! A server with lifecycles, and requests to it.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_004::services::Services;
use crate::support::{Answer, Client, Place, Program, on_both, within};

/// The way to a site that is live.
pub(crate) const PATH: [&str; 8] = [
    "requested",
    "source_resolving",
    "source_resolved",
    "vercel_creating",
    "vercel_created",
    "hook_creating",
    "hook_created",
    "live",
];
pub(crate) const AWAITING: &str = "awaiting_github";
pub(crate) const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A database, and the services that provision sites.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) services: Services,
}

/// Plays a scene on each kind of database.
pub(crate) async fn on_both_stores(scene: impl AsyncFn(Stage)) {
    on_both(async |place| scene(Stage { place, services: Services::start().await }).await).await;
}

/// A server that is running.
pub(crate) struct Open {
    pub(crate) client: Client,
    pub(crate) program: Program,
}

impl Stage {
    /// Sites are driven from outside.
    pub(crate) async fn open(&self) -> Open {
        self.open_with(&[]).await
    }

    pub(crate) async fn open_with(&self, variables: &[(&str, &str)]) -> Open {
        let program = Program::serve(&self.place.db(), variables).await;
        Open { client: program.client.clone(), program }
    }

    /// Sites are driven by the server, which calls the services.
    pub(crate) async fn open_driven(&self, variables: &[(&str, &str)]) -> Open {
        let url = self.services.url();
        let usual = [
            ("BACKSTITCH_LIFECYCLE_SITES_RESOLVE_SOURCE", url.as_str()),
            ("BACKSTITCH_LIFECYCLE_SITES_CREATE_PROJECT", url.as_str()),
            ("BACKSTITCH_LIFECYCLE_SITES_CREATE_HOOK", url.as_str()),
            ("BACKSTITCH_LIFECYCLE_SITES_DELAY", "10ms"),
        ];
        self.open_with(&[&usual, variables].concat()).await
    }
}

#[track_caller]
pub(crate) fn expect(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    answer.json()
}

#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16, kind: &str, words: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, kind), "{answer:?}");
    assert!(answer.detail().contains(words), "{words:?} is not in {:?}", answer.detail());
}

/// Where a site is asked about.
pub(crate) fn site(key: &str, what: &str) -> String {
    format!("/v1/lifecycles/site-provisioning/{key}{what}")
}

impl Open {
    pub(crate) async fn get(&self, path: &str) -> Value {
        expect(&self.client.get(path).await, 200)
    }

    pub(crate) async fn put(&self, path: &str, body: impl Into<bytes::Bytes>) -> Answer {
        self.client.send(Method::PUT, path, &JSON, body).await
    }

    /// Declares a machine that new lifecycles take at once.
    pub(crate) async fn declare(&self, machine: &Value) -> Value {
        let name = machine["name"].as_str().unwrap();
        let declared = self.put(&format!("/v1/lifecycles/{name}?apply=true"), machine.to_string()).await;
        assert!(matches!(declared.status, 200 | 201), "{declared:?}");
        declared.json()
    }

    /// Starts a site that is not at its end.
    pub(crate) async fn start(&self, key: &str, body: &Value) -> Value {
        expect(&self.client.post(&site(key, "/start"), body).await, 202)
    }

    pub(crate) async fn transition(&self, key: &str, to: &str) -> Answer {
        self.client.post(&site(key, "/transition"), &json!({ "to": to })).await
    }

    pub(crate) async fn moves(&self, key: &str, to: &str) -> Value {
        expect(&self.transition(key, to).await, 200)
    }

    pub(crate) async fn fail(&self, key: &str, kind: &str) -> Answer {
        let body = json!({ "error_kind": kind, "message": "it broke" });
        self.client.post(&site(key, "/fail"), &body).await
    }

    pub(crate) async fn look(&self, key: &str) -> Value {
        self.get(&site(key, "")).await
    }

    pub(crate) async fn log(&self, key: &str) -> Vec<Value> {
        self.get(&site(key, "/log")).await["items"].as_array().unwrap().clone()
    }

    /// Starts a site and leads it to a state.
    pub(crate) async fn bring(&self, key: &str, state: &str) {
        self.start(key, &json!({})).await;
        if state == "failed" {
            expect(&self.fail(key, "internal").await, 200);
            return;
        }
        let along = if state == AWAITING { "source_resolving" } else { state };
        let steps = PATH.iter().position(|step| *step == along).unwrap();
        for to in &PATH[1..=steps] {
            self.moves(key, to).await;
        }
        if state == AWAITING {
            self.moves(key, AWAITING).await;
        }
    }

    /// Waits until a site stands there.
    pub(crate) async fn becomes(&self, key: &str, state: &str) -> Value {
        within(async {
            loop {
                let found = self.look(key).await;
                if found["state"] == state {
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

/// Where each of these events led.
pub(crate) fn led_to(log: &[Value]) -> Vec<String> {
    log.iter().filter_map(|event| event["to"].as_str()).map(str::to_owned).collect()
}
