//! Roles and the audit.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_004::stage::{JSON, on_both_stores};
use crate::support::create_key;

const ROLES: [&str; 5] = ["viewer", "client", "worker", "operator", "admin"];

/// A request, and the roles that are let through.
const REQUESTS: [(&str, &str, &str, &[&str]); 14] = [
    ("GET", "/v1/lifecycles", "", &["viewer", "client", "operator", "admin"]),
    ("GET", "/v1/lifecycles/parcel", "", &["viewer", "client", "operator", "admin"]),
    ("GET", "/v1/lifecycles/parcel/p", "", &["viewer", "client", "operator", "admin"]),
    ("GET", "/v1/lifecycles/parcel/p/log", "", &["viewer", "client", "operator", "admin"]),
    ("GET", "/v1/lifecycles/parcel/nobody/events", "", &["viewer", "client", "operator", "admin"]),
    ("GET", "/v1/sites/s", "", &["viewer", "client", "operator", "admin"]),
    ("POST", "/v1/lifecycles/parcel/p/start", "{}", &["client", "operator", "admin"]),
    ("POST", "/v1/sites", r#"{"site_id":"s"}"#, &["client", "operator", "admin"]),
    ("POST", "/v1/lifecycles/parcel/p/transition", r#"{"to":"sent"}"#, &["operator", "admin"]),
    (
        "POST",
        "/v1/lifecycles/parcel/p/fail",
        r#"{"error_kind":"internal","message":""}"#,
        &["operator", "admin"],
    ),
    ("POST", "/v1/lifecycles/parcel/p/abandon", r#"{"note":"left"}"#, &["operator", "admin"]),
    ("PUT", "/v1/lifecycles/parcel", "{}", &["admin"]),
    ("POST", "/v1/lifecycles/parcel/apply", "", &["admin"]),
    ("DELETE", "/v1/lifecycles/parcel/staged", "", &["admin"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_lets_through_who_it_is_for() {
    on_both_stores(async |stage| {
        let mut keys = Vec::new();
        for role in ROLES {
            keys.push(create_key(&stage.place.db(), role).await);
        }
        let open = stage.open().await;
        let admin = open.client.with_key(&keys[4]);
        let machine = crate::acceptance_seed_004::machines::parcel().to_string();
        assert_eq!(
            admin.send(Method::PUT, "/v1/lifecycles/parcel?apply=true", &JSON, machine).await.status,
            201
        );
        for (method, path, body, let_through) in REQUESTS {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(
                open.client.send(method.clone(), path, &JSON, body).await.status,
                401,
                "{method} {path}"
            );
            for (role, key) in ROLES.iter().zip(&keys) {
                let answer = open.client.with_key(key).send(method.clone(), path, &JSON, body).await;
                let passed = !matches!(answer.status, 401 | 403);
                assert_eq!(passed, let_through.contains(role), "{method} {path} as {role}: {answer:?}");
                assert!(answer.status < 500, "{answer:?}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_operators_and_admins_are_audited() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.declare(&crate::acceptance_seed_004::machines::parcel()).await;
        for (path, body) in
            [("start", json!({})), ("transition", json!({ "to": "sent" })), ("fail", json!({}))]
        {
            open.client.post(&format!("/v1/lifecycles/parcel/p/{path}"), &body).await;
        }
        open.get("/v1/lifecycles/parcel/p").await;
        let audit = open.get("/v1/audit").await;
        let told = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            format!("{} {} about {}: {}", text("method"), text("path"), text("subject"), entry["status"])
        };
        let mut recorded: Vec<_> = audit["items"].as_array().unwrap().iter().map(told).collect();
        recorded.reverse();
        assert_eq!(
            recorded,
            [
                "PUT /v1/lifecycles/parcel?apply=true about parcel: 201",
                "POST /v1/lifecycles/parcel/p/transition about parcel: 200",
                "POST /v1/lifecycles/parcel/p/fail about parcel: 422",
            ]
        );
    })
    .await;
}
