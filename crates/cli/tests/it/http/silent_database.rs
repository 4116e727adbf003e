//! Requests while `PostgreSQL` is suspended, or gone.

use std::time::Duration;

use backstitch_server::config::Secret;
use backstitch_testkit::postgres::ThrowawayPostgres;
use futures::future::join_all;
use hyper::Method;
use serde_json::json;

use crate::console::browser::Browser;
use crate::http::support::{Client, Running, SECRET, create_key, within};

/// How long a client waits for any response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

async fn server_on(postgres: &ThrowawayPostgres) -> (Running, Client, Browser) {
    let db = postgres.create_database().await.unwrap();
    let key = create_key(&db, "admin").await;
    let folder = tempfile::tempdir().unwrap();
    let server = Running::on(folder, db, |config| config.secret = Some(Secret::new(SECRET))).await;
    // A visitor who has not signed in is led to the sign-in page as long as the keys were read a moment ago.
    let browser = Browser::signed_in(&server.client, &key).await;
    let client = server.client.with_key(&key);
    (server, client, browser)
}

/// Sends requests of every kind at once: they wait for connections, keys, the audit and commits.
async fn all_are_unavailable(client: &Client, browser: &Browser, saga: &str) {
    let requests = [
        (Method::GET, "/v1/sagas".to_owned(), String::new()),
        (Method::GET, format!("/v1/sagas/{saga}"), String::new()),
        (Method::GET, "/v1/webhooks/subscriptions".to_owned(), String::new()),
        (Method::POST, "/v1/sagas".to_owned(), json!({ "definition": "greet" }).to_string()),
        (Method::POST, format!("/v1/sagas/{saga}/cancel"), "{}".to_owned()),
        (Method::POST, "/v1/webhooks/events".to_owned(), json!({ "type": "a.b", "payload": 1 }).to_string()),
        (Method::POST, "/v1/jobs/lease".to_owned(), json!({ "queues": ["packing"] }).to_string()),
    ];
    let answers = requests.map(|(method, path, body)| async move {
        let headers = [("content-type", "application/json")];
        let answer = tokio::time::timeout(CLIENT_TIMEOUT, client.send(method, &path, &headers, body)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{path} was not answered"));
        assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"), "{path}: {answer:?}");
        assert!(answer.headers.contains_key("retry-after"), "{path}: {answer:?}");
    });
    join_all(answers).await;
    let page = tokio::time::timeout(CLIENT_TIMEOUT, browser.get("/sagas")).await.unwrap();
    assert_eq!(page.status, 503, "{page:?}");
    assert!(page.answer.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{page:?}");
}

async fn works_again(client: &Client) {
    within(async { while client.get("/v1/sagas").await.status != 200 {} }).await;
    within(async {
        while client.post("/v1/sagas", &json!({ "definition": "greet" })).await.status != 202 {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_database_is_answered_with_503() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let (_server, client, browser) = server_on(&postgres).await;
    let saga = client.start(&json!({ "definition": "gated" })).await;
    postgres.suspend().unwrap();
    all_are_unavailable(&client, &browser, &saga).await;
    postgres.resume().unwrap();
    works_again(&client).await;
}

/// Sends 50 requests at once, those for reports among them. The database is silent until all are answered.
async fn reports_are_answered(client: &Client) {
    let paths = ["/metrics", "/v1/doctor", "/v1/sagas", "/v1/webhooks/deliveries", "/v1/outbox"];
    let requests = (0..50).map(|nth| {
        let path = paths[nth % paths.len()];
        async move { (path, within(client.get(path)).await) }
    });
    for (path, answer) in join_all(requests).await {
        let text = String::from_utf8_lossy(&answer.body);
        match path {
            "/metrics" => {
                assert_eq!(answer.status, 200, "{answer:?}");
                assert!(text.contains("\nbackstitch_store_up 0\n"), "{text}");
                assert!(text.contains("\nbackstitch_rollbacks_stuck NaN\n"), "{text}");
                assert!(text.contains("\nbackstitch_sagas_started_total 1\n"), "{text}");
            }
            "/v1/doctor" => {
                assert_eq!(answer.status, 200, "{answer:?}");
                let said = answer.json();
                assert_eq!(said["status"], "attention");
                for finding in said["findings"].as_array().unwrap() {
                    let message = finding["message"].as_str().unwrap();
                    assert!(message.starts_with("this could not be looked at"), "{finding}");
                }
                let well = |check: &&serde_json::Value| check["status"] == "ok";
                let checks = said["checks"].as_array().unwrap().iter().filter(well);
                assert_eq!(checks.map(|check| &check["name"]).collect::<Vec<_>>(), ["retention", "settings"]);
            }
            _ => assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"), "{path}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_answered_while_the_database_is_suspended() {
    let postgres = ThrowawayPostgres::start().unwrap();
    let (_server, client, _browser) = server_on(&postgres).await;
    client.start(&json!({ "definition": "gated" })).await;
    let text = String::from_utf8(client.get("/metrics").await.body.to_vec()).unwrap();
    assert!(text.contains("\nbackstitch_store_up 1\n"), "{text}");
    postgres.suspend().unwrap();
    // Until the keys that were read before are too old to be used by other routes.
    assert_eq!(within(client.get("/v1/sagas")).await.status, 503);
    for _ in 0..2 {
        reports_are_answered(&client).await;
    }
    let unknown = within(client.with_key("bsk_0000").get("/metrics")).await;
    assert_eq!(unknown.status, 401, "{unknown:?}");
    postgres.resume().unwrap();
    works_again(&client).await;
    within(async {
        loop {
            let text = client.get("/metrics").await.body;
            if String::from_utf8_lossy(&text).contains("\nbackstitch_store_up 1\n") {
                return;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_database_is_answered_with_503() {
    let mut postgres = ThrowawayPostgres::start().unwrap();
    let (_server, client, browser) = server_on(&postgres).await;
    let saga = client.start(&json!({ "definition": "gated" })).await;
    postgres.stop_immediate().unwrap();
    all_are_unavailable(&client, &browser, &saga).await;
    postgres.start_again().unwrap();
    works_again(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_wait_is_not_cut_short_by_an_answering_database() {
    let postgres = ThrowawayPostgres::start_unsynced().unwrap();
    let (server, client, _browser) = server_on(&postgres).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.post("/v1/sagas?wait=30", &json!({ "definition": "gated" })).await }
    });
    // Until the database was probed for it: the server says so in the statistics of its sessions.
    let (watcher, connection) = tokio_postgres::connect(&server.db, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let probed =
        "select 1 from pg_stat_activity where query like '%pg_logical_emit_message%' and state = 'idle'";
    within(async {
        while watcher.query(probed, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    server.switches.open_gate();
    let answer = within(waiting).await.unwrap();
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("succeeded")), "{answer:?}");
}
