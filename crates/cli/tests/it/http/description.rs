//! The API's description.

use serde_json::Value;

use crate::http::support::Running;

#[tokio::test]
async fn description_is_valid_openapi_with_resolved_references() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut references = Vec::new();
    collect(&description, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(description.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn every_route_has_a_unique_id_and_its_errors() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    let mut names = Vec::new();
    for item in description["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            names.push(operation["operationId"].as_str().unwrap().to_owned());
            let answers = operation["responses"].as_object().unwrap();
            let needed = if operation["x-role"] == "public" {
                &["503"][..]
            } else {
                &["400", "401", "403", "429", "503"]
            };
            let with_body: &[&str] =
                if operation["requestBody"].is_null() { &[] } else { &["413", "415", "422"] };
            for status in needed.iter().chain(with_body) {
                assert!(answers.contains_key(*status), "{} without {status}", operation["operationId"]);
            }
        }
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}

#[tokio::test]
async fn payloads_of_messages_are_any_json() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    for schema in ["Message", "NewMessage"] {
        let payload = &description["components"]["schemas"][schema]["properties"]["payload"];
        assert!(payload.is_object() && payload["type"].is_null() && payload["$ref"].is_null(), "{payload}");
    }
}

#[tokio::test]
async fn a_body_is_required_where_the_server_needs_it() {
    let server = Running::start().await;
    let description = server.client.get("/openapi.json").await.json();
    let mut tried = 0;
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["requestBody"].is_null() {
                continue;
            }
            let method = hyper::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let path = path.replace("{id}", "1").replace("{name}", "n").replace("{machine}", "m");
            let path = path
                .replace("{key}", "k")
                .replace("{step}", "s")
                .replace("sagas/1", &format!("sagas/{SAGA}"));
            let headers = [("content-type", "application/json")];
            let answer = server.client.send(method.clone(), &path, &headers, "").await;
            let refused = matches!(answer.status, 400 | 415 | 422);
            assert_eq!(refused, operation["requestBody"]["required"] == true, "{method} {path}: {answer:?}");
            tried += 1;
        }
    }
    assert!(tried > 25, "{tried}");
}

/// A saga that does not exist.
const SAGA: &str = "01a1ee4f-323d-7453-8a22-d58cc01dce45";

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(reference) if name == "$ref" => references.push(reference.to_owned()),
                    _ => collect(value, references),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

#[tokio::test]
async fn the_browser_page_fetches_nothing_from_outside() {
    let server = Running::start().await;
    let page = server.client.get("/docs").await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("innerHTML"));
}

#[tokio::test]
async fn the_type_of_a_problem_leads_to_its_page() {
    let server = Running::start().await;
    let problem = server.client.get("/v1/sagas/x").await.json();
    let page = server.client.get(problem["type"].as_str().unwrap()).await;
    assert_eq!(
        (page.status, page.headers["content-type"].to_str().unwrap()),
        (200, "text/plain; charset=utf-8")
    );
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(text.starts_with("# ") && text.contains("What to do"));
}

#[tokio::test]
async fn head_is_answered_like_get_without_the_body() {
    let server = Running::start().await;
    let answer = server.client.send(hyper::Method::HEAD, "/health/live", &[], "").await;
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}
