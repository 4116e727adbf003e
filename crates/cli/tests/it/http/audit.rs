//! Requested changes are audited permanently.

use crate::support::fresh_database;
use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Client, Running, SECRET, create_key, within};

async fn entries(admin: &Client) -> Vec<Value> {
    let page = admin.get("/v1/audit").await;
    assert_eq!(page.status, 200, "{page:?}");
    page.json()["items"].as_array().unwrap().clone()
}

/// What an entry says was done: role, method, path, subject and status.
fn told(entry: &Value) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    format!(
        "{} {} {} about {}: {}",
        text("role"),
        text("method"),
        text("path"),
        text("subject"),
        entry["status"]
    )
}

fn connect(db: &str) -> rusqlite::Connection {
    rusqlite::Connection::open(db.strip_prefix("sqlite:").unwrap()).unwrap()
}

const WAITING: &str = "name: parcel\nsteps:\n  - id: pack\n    action: { worker: { queue: packing } }\n";

#[tokio::test]
async fn every_requested_change_is_audited_with_its_response() {
    let (server, [client, operator, admin]) = Running::with_keys(["client", "operator", "admin"]).await;
    let [client, operator, admin] = [client, operator, admin].map(|key| server.client.with_key(&key));
    let id = client.start(&json!({ "definition": "gated" })).await;
    let stuck = client.run(&json!({ "definition": "stuck" })).await["id"].as_str().unwrap().to_owned();
    let saga = |what: &str| format!("/v1/sagas/{id}/{what}");
    let note = json!({ "note": "because" });
    operator.post(&saga("pause"), &note).await;
    // A request is durable at once, and carried out a moment later.
    within(async {
        while client.get(&format!("/v1/sagas/{id}")).await.json()["paused"] != true {
            tokio::task::yield_now().await;
        }
    })
    .await;
    operator.post(&saga("pause"), &note).await;
    operator.post(&saga("resume"), &note).await;
    client.post(&saga("cancel"), &note).await;
    let resolution = json!({ "action": "skip", "note": "ada: leave it" });
    operator.post(&format!("/v1/sagas/{stuck}/steps/reserve/resolve"), &resolution).await;
    admin.send(Method::PUT, "/v1/definitions/parcel?apply=true", &[], WAITING).await;
    admin.send(Method::POST, "/v1/definitions/parcel/apply", &[], "").await;
    admin.send(Method::DELETE, "/v1/definitions/%00/staged", &[], "").await;
    for (kind, change) in [("services", json!({})), ("timeouts", json!({ "payment": "9s" }))] {
        let path = format!("/v1/admin/config/{kind}");
        admin.send(Method::PUT, &path, &[("content-type", "application/json")], change.to_string()).await;
        admin.send(Method::POST, &format!("{path}/apply"), &[], "").await;
        admin.send(Method::DELETE, &format!("{path}/staged"), &[], "").await;
    }
    let webhooks = |path: &str| format!("/v1/webhooks/{path}");
    admin.post(&webhooks("subscriptions"), &json!({})).await;
    admin.send(Method::DELETE, &webhooks("subscriptions/9"), &[], "").await;
    operator.post(&webhooks("dead-letters/9/requeue"), &json!({})).await;
    operator.post(&webhooks("dead-letters/requeue"), &json!({ "all": true })).await;
    // These change nothing that anybody has to account for, or are not let through.
    admin.get("/v1/sagas").await;
    admin.get(&webhooks("subscriptions")).await;
    operator.post(&webhooks("subscriptions"), &json!({})).await;
    client.post(&saga("pause"), &note).await;
    server.client.post(&saga("cancel"), &note).await;

    let recorded = entries(&admin).await;
    let mut found: Vec<String> = recorded.iter().map(told).collect();
    found.reverse();
    let config = |method: &str, path: &str, status: u16| {
        format!("admin {method} /v1/admin/config/{path} about -: {status}")
    };
    let expected = [
        format!("operator POST {} about {id}: 202", saga("pause")),
        format!("operator POST {} about {id}: 409", saga("pause")),
        format!("operator POST {} about {id}: 202", saga("resume")),
        format!("client POST {} about {id}: 202", saga("cancel")),
        format!("operator POST /v1/sagas/{stuck}/steps/reserve/resolve about {stuck}: 202"),
        "admin PUT /v1/definitions/parcel?apply=true about parcel: 201".to_owned(),
        "admin POST /v1/definitions/parcel/apply about parcel: 409".to_owned(),
        "admin DELETE /v1/definitions/%00/staged about %00: 409".to_owned(),
        config("PUT", "services", 422),
        config("POST", "services/apply", 409),
        config("DELETE", "services/staged", 409),
        config("PUT", "timeouts", 200),
        config("POST", "timeouts/apply", 409),
        config("DELETE", "timeouts/staged", 200),
        "admin POST /v1/webhooks/subscriptions about -: 422".to_owned(),
        "admin DELETE /v1/webhooks/subscriptions/9 about 9: 404".to_owned(),
        "operator POST /v1/webhooks/dead-letters/9/requeue about 9: 404".to_owned(),
        "operator POST /v1/webhooks/dead-letters/requeue about -: 200".to_owned(),
    ];
    assert_eq!(found, expected);
    for entry in &recorded {
        assert!(entry["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{entry}");
        assert!(entry["key"].is_string() && entry["key_id"].is_i64() && entry["at"].is_string(), "{entry}");
    }
}

#[tokio::test]
async fn on_an_open_server_the_record_says_so() {
    let server = Running::start().await;
    server.client.post(&format!("/v1/sagas/{}/pause", uuid::Uuid::nil()), &json!({})).await;
    let [entry] = entries(&server.client).await.try_into().unwrap();
    assert_eq!(
        (&entry["role"], &entry["key"], &entry["status"]),
        (&json!("open"), &Value::Null, &json!(404))
    );
}

#[tokio::test]
async fn the_audit_is_read_newest_first_a_page_at_a_time() {
    let server = Running::start().await;
    for number in 0..5 {
        server.client.send(Method::POST, &format!("/v1/definitions/d{number}/apply"), &[], "").await;
    }
    let mut subjects = Vec::new();
    let mut path = "/v1/audit?limit=2".to_owned();
    let mut pages = 0;
    loop {
        let page = server.client.get(&path).await.json();
        pages += 1;
        let items = page["items"].as_array().unwrap();
        subjects.extend(items.iter().map(|item| item["subject"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/audit?limit=2&cursor={next}");
    }
    assert_eq!((subjects, pages), (["d4", "d3", "d2", "d1", "d0"].map(str::to_owned).to_vec(), 3));
    for wrong in ["limit=0", "cursor=x", "subject=d1"] {
        let refused = server.client.get(&format!("/v1/audit?{wrong}")).await;
        assert_eq!((refused.status, refused.problem().as_str()), (400, "bad-query"), "{wrong}");
    }
}

const FORBIDDEN: [&str; 4] = [
    "update audit set path = '/'",
    "delete from audit",
    "update audit_answers set status = 200",
    "delete from audit_answers",
];

#[tokio::test]
async fn audit_entries_cannot_be_changed_or_deleted() {
    let server = Running::start().await;
    server.client.send(Method::POST, "/v1/definitions/d/apply", &[], "").await;
    let file = connect(&server.db);
    for statement in FORBIDDEN {
        let refused = file.execute(statement, []).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{statement}: {refused}");
    }
}

#[tokio::test]
async fn the_audit_works_and_cannot_be_changed_on_postgres() {
    let db = fresh_database().await;
    let admin = create_key(&db, "admin").await;
    let server = Running::on(tempfile::tempdir().unwrap(), db.clone(), |config| {
        config.secret = Some(backstitch_server::config::Secret::new(SECRET));
    })
    .await;
    let admin = server.client.with_key(&admin);
    admin.send(Method::DELETE, "/v1/definitions/%00/staged", &[], "").await;
    admin.send(Method::POST, "/v1/definitions/d/apply?version=1", &[], "").await;
    let found: Vec<String> = entries(&admin).await.iter().map(told).collect();
    let expected = [
        "admin POST /v1/definitions/d/apply?version=1 about d: 409",
        "admin DELETE /v1/definitions/%00/staged about %00: 409",
    ];
    assert_eq!(found, expected);
    let (session, connection) = tokio_postgres::connect(&db, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    session.batch_execute("set search_path = backstitch").await.unwrap();
    for statement in FORBIDDEN.into_iter().chain(["truncate audit, audit_answers"]) {
        let refused = session.batch_execute(statement).await.unwrap_err();
        let told = refused.as_db_error().unwrap().message().to_owned();
        assert!(told.contains("append-only"), "{statement}: {told}");
    }
}

#[tokio::test]
async fn change_that_cannot_be_audited_is_refused() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let file = connect(&server.db);
    file.execute_batch("alter table audit rename to elsewhere").unwrap();
    let refused = server.client.post(&format!("/v1/sagas/{id}/pause"), &json!({})).await;
    assert!(refused.status >= 500, "{refused:?}");
    refused.problem();
    let log = server.client.get(&format!("/v1/sagas/{id}/log")).await.json().to_string();
    assert!(!log.contains("saga.paused"), "{log}");
}

#[tokio::test]
async fn change_succeeds_even_if_its_response_is_not_audited() {
    let server = Running::start().await;
    let id = server.client.start(&json!({ "definition": "gated" })).await;
    let file = connect(&server.db);
    file.execute_batch("alter table audit_answers rename to elsewhere").unwrap();
    let paused = server.client.post(&format!("/v1/sagas/{id}/pause"), &json!({})).await;
    assert_eq!(paused.status, 202, "{paused:?}");
    file.execute_batch("alter table elsewhere rename to audit_answers").unwrap();
    let [entry] = entries(&server.client).await.try_into().unwrap();
    assert_eq!(told(&entry), format!("open POST /v1/sagas/{id}/pause about {id}: null"));
}

#[tokio::test]
async fn whatever_an_operator_or_an_administrator_changes_is_audited() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    let mut audited = 0;
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let role = operation["x-role"].as_str().unwrap();
            let changes = method != "get" && ["operator", "admin"].contains(&role);
            let is_audited = operation["x-audited"] == true;
            assert_eq!(is_audited, changes || path.ends_with("/cancel"), "{method} {path}");
            audited += usize::from(is_audited);
        }
    }
    assert!(audited >= 13, "{audited}");
}
