//! The real server on a primary with a synchronous standby, and a failover.

use std::sync::Arc;

use backstitch::clock::SystemClock;
use backstitch_server::Config;
use backstitch_server::admin::{ApiKeys, Role};
use backstitch_server::config::Secret;
use backstitch_testkit::PATIENCE;
use backstitch_testkit::postgres::ThrowawayPostgres;
use backstitch_testkit::postgres::replicated::{CONFIRM, Replicated};
use backstitch_testkit::service::{Reply, Service};
use hyper::Method;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::http::support::{Answer, Client, Program, within};

async fn start(client: Client) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    client.send(Method::POST, "/v1/sagas", &headers, json!({ "definition": "pay" }).to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn saga_that_a_failover_loses_was_answered_with_503() {
    let mut primary = ThrowawayPostgres::start().unwrap();
    let db = primary.create_database().await.unwrap();
    let program = Program::serve(&db, &[]).await;
    let mut standby = primary.start_standby().await.unwrap();
    let service = Service::always(|| Reply::http(200, "null")).await;
    let pay =
        format!("{{name: pay, steps: [{{id: charge, action: {{http: {{url: '{}'}}}}}}]}}", service.url());
    let headers = [("content-type", "application/yaml")];
    let put = program.client.send(Method::PUT, "/v1/definitions/pay?apply=true", &headers, pay).await;
    assert_eq!(put.status, 201, "{put:?}");
    program.client.run(&json!({ "definition": "pay" })).await;
    assert_eq!(service.heard().len(), 1);

    standby.stop_immediate().unwrap();
    let starting = tokio::spawn(start(program.client.clone()));
    let commit = primary.until_waiting_for_standby("A batch of decisions", PATIENCE).await.unwrap();
    let (watcher, connection) = tokio_postgres::connect(&db, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    watcher.query("select pg_terminate_backend($1)", &[&commit]).await.unwrap();
    let answer = within(starting).await.unwrap();
    assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"), "{answer:?}");
    primary.stop_immediate().unwrap();
    standby.start_again().unwrap();
    standby.promote().await.unwrap();
    assert_eq!(service.heard().len(), 1, "a saga that is lost has called its service");
    drop(program);

    let program = Program::serve(&standby.url(db.rsplit_once('/').unwrap().1), &[]).await;
    let sagas = program.client.get("/v1/sagas").await.json();
    assert_eq!(sagas["items"].as_array().unwrap().len(), 1, "{sagas}");
    let again = start(program.client.clone()).await;
    assert_eq!(again.status, 202, "{again:?}");
    program.client.ended(again.json()["id"].as_str().unwrap()).await;
    assert_eq!(service.heard().len(), 2);
}

async fn keys(db: String) -> ApiKeys {
    let secret = Some(Secret::new("a secret that is long enough to be one"));
    let config = Config { db, secret, ..Config::default() };
    ApiKeys::open(&config, Arc::new(SystemClock)).await.unwrap()
}

/// Revokes a key until that is answered: connections may still be lost from the crash.
async fn revoke(keys: ApiKeys, id: i64) -> bool {
    loop {
        if let Ok(revoked) = keys.revoke(id).await {
            return revoked;
        }
    }
}

async fn state(db: String) -> &'static str {
    keys(db).await.list().await.unwrap()[0].state
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_revocation_of_a_key_waits_for_the_standby() {
    let mut servers = Replicated::start(&[]).await;
    // Its tasks end with it, as in a killed process.
    let first_node = Runtime::new().unwrap();
    let first = first_node.spawn(keys(servers.address.clone())).await.unwrap();
    let id =
        first_node.spawn(async move { (first.create(Role::Admin, "me", None).await.unwrap().id, first) });
    let (id, first) = id.await.unwrap();
    let second = keys(servers.address.clone()).await;
    servers.standby.stop_immediate().unwrap();
    let request = first_node.spawn(revoke(first, id));
    servers.until_waiting("update api_keys", &request).await;
    first_node.shutdown_background();
    servers.crash_primary();

    let again = tokio::spawn(revoke(second, id));
    servers.until_waiting(CONFIRM, &again).await;
    servers.standby.start_again().unwrap();
    assert!(!Replicated::answer(again).await, "it was revoked before");
    assert_eq!(state(servers.fail_over().await).await, "revoked");
}
