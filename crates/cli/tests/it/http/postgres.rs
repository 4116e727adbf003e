//! The same on `PostgreSQL`.

use backstitch_server::config::Secret;
use backstitch_testkit::postgres::empty_database;
use serde_json::json;

use crate::http::support::{EventStream, Running, SECRET, create_key, output_of, within};
use crate::support::fresh_database;

async fn server(db: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    Running::on(folder, db.to_owned(), |config| config.secret = Some(Secret::new(SECRET))).await
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_on_postgres() {
    let db = fresh_database().await;
    let key = create_key(&db, "operator").await;
    let server = server(&db).await;
    let client = server.client.with_key(&key);
    assert_eq!(server.client.get("/v1/sagas").await.status, 401);
    assert_eq!(client.get("/v1/sagas").await.status, 200);
    let listed = output_of(&["keys", "--db", &db, "list"]).await;
    assert!(String::from_utf8(listed.stdout).unwrap().contains("operator"));
    let revoked = output_of(&["keys", "--db", &db, "revoke", "1"]).await;
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    within(async { while client.get("/v1/sagas").await.status != 401 {} }).await;
}

#[tokio::test]
async fn every_route_works_on_postgres() {
    let db = fresh_database().await;
    let key = create_key(&db, "admin").await;
    let server = server(&db).await;
    let client = server.client.with_key(&key);
    let saga = client.run(&json!({ "definition": "doomed", "correlation_id": "c" })).await;
    let id = saga["id"].as_str().unwrap();
    assert_eq!(saga["status"], "compensated");
    assert_eq!(client.get(&format!("/v1/sagas/{id}")).await.json(), saga);
    assert_eq!(client.get("/v1/sagas?correlation_id=c").await.json()["items"][0]["id"], id);
    let log = client.get(&format!("/v1/sagas/{id}/log")).await.json();
    let events = EventStream::open(&client, &format!("/v1/sagas/{id}/events"), Some(2)).await.rest().await;
    assert_eq!(events.len(), log["items"].as_array().unwrap().len() - 2);
    for path in ["/health/ready", "/v1/health", "/metrics"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let gated = client.start(&json!({ "definition": "gated" })).await;
    assert_eq!(client.post(&format!("/v1/sagas/{gated}/pause"), &json!({})).await.status, 202);
    assert_eq!(client.post(&format!("/v1/sagas/{gated}/cancel"), &json!({})).await.status, 202);
    let stuck = client.run(&json!({ "definition": "stuck" })).await;
    let note = json!({ "action": "skip", "note": "ada: leave it" });
    let path = format!("/v1/sagas/{}/steps/reserve/resolve", stuck["id"].as_str().unwrap());
    assert_eq!(client.post(&path, &note).await.status, 202);
}

#[tokio::test]
async fn keys_on_postgres_need_the_secret() {
    let db = fresh_database().await;
    create_key(&db, "admin").await;
    let refused = backstitch_server::Server::bind(backstitch_server::Config {
        listen: ([127, 0, 0, 1], 0).into(),
        db,
        ..backstitch_server::Config::default()
    })
    .await;
    assert!(refused.err().unwrap().to_string().contains("BACKSTITCH_SECRET"));
}

#[tokio::test]
async fn migrating_makes_the_tables_of_engine_and_server_on_postgres() {
    let db = empty_database().await;
    for _ in 0..2 {
        let done = output_of(&["migrate", "--db", &db]).await;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let (client, connection) = tokio_postgres::connect(&db, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for table in ["sagas", "api_keys", "audit", "product_migrations"] {
        client.query(&format!("select * from backstitch.{table}"), &[]).await.unwrap();
    }
}

#[tokio::test]
async fn a_nul_character_is_no_error_of_the_database() {
    let db = fresh_database().await;
    let key = create_key(&db, "admin").await;
    let server = server(&db).await;
    let client = server.client.with_key(&key);
    for path in ["/v1/definitions/%00", "/v1/definitions/a%00b?version=1"] {
        assert_eq!(client.get(path).await.problem(), "definition-not-found", "{path}");
    }
    for query in ["definition=%00", "correlation_id=%00", "attr.a%00=b", "attr.a=%00"] {
        let found = client.get(&format!("/v1/sagas?{query}")).await;
        assert_eq!((found.status, &found.json()["items"]), (200, &json!([])), "{query}");
    }
    for name in ["%00/apply", "%00/staged"] {
        let method = if name.ends_with("apply") { hyper::Method::POST } else { hyper::Method::DELETE };
        let answer = client.send(method, &format!("/v1/definitions/{name}"), &[], "").await;
        assert_eq!(answer.problem(), "nothing-staged", "{name}");
    }
    let leased = client.post("/v1/jobs/lease", &json!({ "queues": ["\0", "packing"] })).await;
    assert_eq!((leased.status, leased.json()), (200, json!({ "jobs": [] })));
    let started = client.post("/v1/sagas", &json!({ "definition": "\0" })).await;
    assert_eq!(started.problem(), "unknown-definition");
    let gated = client.start(&json!({ "definition": "gated", "input": "\0" })).await;
    let paused = client.post(&format!("/v1/sagas/{gated}/pause"), &json!({ "note": "\0" })).await;
    assert_eq!(paused.status, 202, "{paused:?}");
    let cancelled = client.post(&format!("/v1/sagas/{gated}/cancel"), &json!({ "note": "\0" })).await;
    assert_eq!(cancelled.status, 202, "{cancelled:?}");
}

#[tokio::test]
async fn key_in_an_open_transaction_gets_503_with_retry_after() {
    let db = fresh_database().await;
    let key = create_key(&db, "admin").await;
    let server = server(&db).await;
    let client = server.client.with_key(&key);
    // The first start keeps the definition, which the function in SQL looks up.
    client.run(&json!({ "definition": "doomed" })).await;
    let (mut own, connection) = tokio_postgres::connect(&db, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let open = own.transaction().await.unwrap();
    let held = "select backstitch.start('doomed', '7', idempotency_key => 'k')::text";
    let saga: String = open.query_one(held, &[]).await.unwrap().get(0);
    let start = async || {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let body = json!({ "definition": "doomed", "input": 7 }).to_string();
        client.send(hyper::Method::POST, "/v1/sagas", &headers, body).await
    };
    let refused = start().await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "key-held"), "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "1");
    open.commit().await.unwrap();
    assert_eq!(start().await.json()["id"], saga, "once it is committed, the key stands for what it started");
}

/// As a newer version does whose data this one cannot read.
#[tokio::test]
async fn node_shut_out_by_a_newer_version_shows_the_remedy() {
    let db = fresh_database().await;
    let server = server(&db).await;
    assert_eq!(server.client.get("/health/ready").await.status, 200);
    let (newer, connection) = tokio_postgres::connect(&db, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let migrate = "set search_path = backstitch;
        insert into product_migrations (product, version, name) values ('engine', 99, 'newer');
        drop trigger if exists nodes_refuse_older_version on nodes;
        create trigger nodes_refuse_older_version before insert or update on nodes
            for each row when (new.schema_version < 99) execute function refuse('upgrade this node')";
    newer.batch_execute(migrate).await.unwrap();
    let answer = within(async {
        loop {
            let answer = server.client.get("/health/ready").await;
            if answer.status != 200 {
                return answer;
            }
        }
    });
    let answer = answer.await;
    assert_eq!((answer.status, answer.problem().as_str()), (503, "unavailable"), "{answer:?}");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("a newer version") && detail.contains("upgrade this node"), "{detail}");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}
