//! Every route with every role.

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::Value;

use crate::http::support::Running;

const ROLES: [&str; 5] = ["viewer", "client", "worker", "operator", "admin"];

/// Which roles get through where one is needed, as the contract says.
fn sufficient(needed: &str) -> &'static [&'static str] {
    match needed {
        "viewer" => &["viewer", "client", "operator", "admin"],
        "client" => &["client", "operator", "admin"],
        "worker" => &["worker", "admin"],
        "operator" => &["operator", "admin"],
        "admin" => &["admin"],
        other => panic!("{other} is not a role"),
    }
}

/// Every route of the description and the role it names.
async fn routes(server: &Running) -> BTreeMap<(String, String), String> {
    let description = server.client.get("/openapi.json").await.json();
    let mut routes = BTreeMap::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let role = operation["x-role"].as_str().unwrap_or_else(|| panic!("{method} {path} has no role"));
            routes.insert((method.to_uppercase(), path.clone()), role.to_owned());
        }
    }
    routes
}

#[tokio::test]
async fn every_route_lets_through_the_roles_it_names_and_no_other() {
    let (server, keys) = Running::with_keys(ROLES).await;
    for ((method, path), needed) in routes(&server).await {
        let target = path
            .replace("{id}", "0190b6f2-7e1a-7000-8000-000000000000")
            .replace("{step}", "a")
            .replace("{name}", "bad-id");
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let status = async |client: &crate::http::support::Client| {
            client.open(method.clone(), &target, &[], "").await.status().as_u16()
        };
        let without = status(&server.client).await;
        if needed == "public" {
            assert_eq!(without, 200, "{method} {path} without a key");
            continue;
        }
        assert_eq!(without, 401, "{method} {path} without a key");
        let wrong = status(&server.client.with_key(&format!("bsk_{}", "A".repeat(43)))).await;
        assert!([401, 429].contains(&wrong), "{method} {path} with a wrong key: {wrong}");
        for (role, key) in ROLES.iter().zip(&keys) {
            let status = status(&server.client.with_key(key)).await;
            if sufficient(&needed).contains(role) {
                assert!(status != 401 && status != 403, "{method} {path} as {role}: {status}");
            } else {
                assert_eq!(status, 403, "{method} {path} as {role}");
            }
        }
    }
}

#[tokio::test]
async fn roles_match_the_contract() {
    let server = Running::start().await;
    let routes = routes(&server).await;
    for (method, path, role) in [
        ("GET", "/health/live", "public"),
        ("GET", "/health/ready", "public"),
        ("GET", "/openapi.json", "public"),
        ("GET", "/docs", "public"),
        ("GET", "/docs/errors/{name}", "public"),
        ("GET", "/metrics", "viewer"),
        ("GET", "/v1/health", "viewer"),
        ("GET", "/v1/doctor", "viewer"),
        ("GET", "/v1/sagas", "viewer"),
        ("GET", "/v1/sagas/{id}", "viewer"),
        ("GET", "/v1/sagas/{id}/log", "viewer"),
        ("GET", "/v1/sagas/{id}/events", "viewer"),
        ("GET", "/v1/sagas/{id}/ws", "viewer"),
        ("GET", "/v1/events", "viewer"),
        ("POST", "/v1/sagas", "client"),
        ("POST", "/v1/sagas/{id}/cancel", "client"),
        ("GET", "/v1/audit", "admin"),
        ("GET", "/v1/admin/alerts", "viewer"),
        ("POST", "/v1/admin/alerts/{id}/acknowledge", "operator"),
        ("GET", "/v1/parked", "viewer"),
        ("POST", "/v1/parked/retry", "operator"),
        ("POST", "/v1/parked/{id}/retry", "operator"),
        ("POST", "/v1/parked/{id}/remove-conflict", "operator"),
        ("POST", "/v1/sagas/{id}/pause", "operator"),
        ("POST", "/v1/sagas/{id}/resume", "operator"),
        ("POST", "/v1/sagas/{id}/steps/{step}/resolve", "operator"),
        ("GET", "/v1/lifecycles", "viewer"),
        ("PUT", "/v1/lifecycles/{machine}", "admin"),
        ("GET", "/v1/lifecycles/{machine}", "viewer"),
        ("POST", "/v1/lifecycles/{machine}/apply", "admin"),
        ("DELETE", "/v1/lifecycles/{machine}/staged", "admin"),
        ("POST", "/v1/lifecycles/{machine}/{key}/start", "client"),
        ("POST", "/v1/lifecycles/{machine}/{key}/transition", "operator"),
        ("POST", "/v1/lifecycles/{machine}/{key}/fail", "operator"),
        ("POST", "/v1/lifecycles/{machine}/{key}/abandon", "operator"),
        ("GET", "/v1/lifecycles/{machine}/{key}", "viewer"),
        ("GET", "/v1/lifecycles/{machine}/{key}/log", "viewer"),
        ("GET", "/v1/lifecycles/{machine}/{key}/events", "viewer"),
        ("POST", "/v1/sites", "client"),
        ("GET", "/v1/sites/{id}", "viewer"),
        ("POST", "/v1/webhooks/subscriptions", "admin"),
        ("GET", "/v1/webhooks/subscriptions", "viewer"),
        ("GET", "/v1/webhooks/subscriptions/{id}", "viewer"),
        ("PATCH", "/v1/webhooks/subscriptions/{id}", "admin"),
        ("DELETE", "/v1/webhooks/subscriptions/{id}", "admin"),
        ("POST", "/v1/webhooks/subscriptions/{id}/rotate-secret", "admin"),
        ("POST", "/v1/webhooks/subscriptions/{id}/test", "admin"),
        ("POST", "/v1/webhooks/subscriptions/{id}/replay", "operator"),
        ("POST", "/v1/webhooks/events", "client"),
        ("GET", "/v1/webhooks/events/{id}", "viewer"),
        ("GET", "/v1/webhooks/deliveries", "viewer"),
        ("GET", "/v1/webhooks/deliveries/{id}", "viewer"),
        ("GET", "/v1/webhooks/dead-letters", "viewer"),
        ("GET", "/v1/webhooks/dead-letters/{id}", "viewer"),
        ("POST", "/v1/webhooks/dead-letters/{id}/requeue", "operator"),
        ("POST", "/v1/webhooks/dead-letters/requeue", "operator"),
    ] {
        let found = routes.get(&(method.to_owned(), path.to_owned())).map(String::as_str);
        assert_eq!(found, Some(role), "{method} {path}");
    }
}

#[tokio::test]
async fn a_route_that_needs_a_key_says_so_in_the_description() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    assert_eq!(description["components"]["securitySchemes"]["api_key"]["scheme"], "bearer");
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let public = operation["x-role"] == "public";
            assert_eq!(operation["security"] == Value::Null, public, "{method} {path}");
        }
    }
}
