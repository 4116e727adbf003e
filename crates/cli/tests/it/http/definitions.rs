//! Declaring sagas over HTTP.

use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Answer, Client, Place, Program, Running, on_both};
use backstitch_testkit::service::{Reply, Service};

/// One step that waits for a worker: nothing has to be called to have sagas in flight.
fn waiting(name: &str, timeout: &str) -> String {
    format!(
        "name: {name}\nsteps:\n  - id: pack\n    action: {{ worker: {{ queue: packing }} }}\n    timeout: {timeout}\n"
    )
}

async fn put(client: &Client, path: &str, yaml: &str) -> Answer {
    let path = format!("/v1/definitions/{path}");
    client.send(Method::PUT, &path, &[("content-type", "application/yaml")], yaml.to_owned()).await
}

async fn send(client: &Client, method: Method, path: &str) -> Answer {
    client.send(method, &format!("/v1/definitions/{path}"), &[], "").await
}

async fn show(client: &Client, name: &str) -> Value {
    client.get(&format!("/v1/definitions/{name}")).await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn unparsed_result_is_in_events_and_console() {
    on_both(async |place: Place| {
        let program = Program::serve(&place.db(), &[]).await;
        let client = &program.client;
        let service = Service::always(|| Reply::http(200, "<p>paid</p>")).await;
        let yaml =
            format!("{{name: pay, steps: [{{id: charge, action: {{http: {{url: '{}'}}}}}}]}}", service.url());
        assert_eq!(put(client, "pay?apply=true", &yaml).await.status, 201);
        let saga = client.post("/v1/sagas?wait=30", &json!({ "definition": "pay" })).await.json();
        assert_eq!((&saga["status"], service.heard().len()), (&json!("succeeded"), 1), "{saga}");
        assert_eq!(saga["steps"][0]["result"], "<p>paid</p>");
        let id = saga["id"].as_str().unwrap();
        let log = client.get(&format!("/v1/sagas/{id}/log")).await.json();
        let succeeded = log["items"].as_array().unwrap().iter().find(|it| it["type"] == "step.succeeded");
        assert_eq!(succeeded.unwrap()["unparsed"], true, "{log}");
        let page = client.get(&format!("/sagas/{id}")).await;
        let page = String::from_utf8_lossy(&page.body).into_owned();
        assert!(page.contains("unparsed: true"), "{page}");
    })
    .await;
}

#[tokio::test]
async fn a_definition_is_staged_first_and_taken_once_it_is_applied() {
    let server = Running::start().await;
    let client = &server.client;
    let staged = put(client, "parcel", &waiting("parcel", "5m")).await;
    assert_eq!(staged.status, 201, "{staged:?}");
    assert_eq!(staged.json(), json!({"name": "parcel", "version": 1, "standing": "staged"}));
    let start = client.post("/v1/sagas", &json!({"definition": "parcel"})).await;
    assert_eq!(
        (start.status, start.problem().as_str()),
        (422, "unknown-definition"),
        "it is not applied yet"
    );
    let applied = send(client, Method::POST, "parcel/apply").await;
    assert_eq!(applied.json(), json!({"name": "parcel", "version": 1, "in_flight": []}));
    client.start(&json!({"definition": "parcel"})).await;
    let again = send(client, Method::POST, "parcel/apply").await;
    assert_eq!((again.status, again.problem().as_str()), (409, "nothing-staged"));
}

#[tokio::test]
async fn the_same_definition_again_changes_nothing() {
    let server = Running::start().await;
    let first = put(&server.client, "parcel?apply=true", &waiting("parcel", "5m")).await;
    assert_eq!((first.status, &first.json()["standing"]), (201, &json!("active")));
    let second = put(&server.client, "parcel?apply=true", &waiting("parcel", "5m")).await;
    assert_eq!((second.status, &second.json()["version"]), (200, &json!(1)));
    assert_eq!(show(&server.client, "parcel").await["versions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_version_that_is_meant_is_applied_or_nothing() {
    let server = Running::start().await;
    let client = &server.client;
    put(client, "parcel", &waiting("parcel", "5m")).await;
    put(client, "parcel", &waiting("parcel", "7m")).await;
    let replaced = send(client, Method::POST, "parcel/apply?version=1").await;
    assert_eq!((replaced.status, replaced.problem().as_str()), (409, "raced"), "{replaced:?}");
    assert_eq!(show(client, "parcel").await["active"], Value::Null);
    let applied = send(client, Method::POST, "parcel/apply?version=2").await;
    assert_eq!((applied.status, &applied.json()["version"]), (200, &json!(2)));
    let bad = send(client, Method::POST, "parcel/apply?version=two").await;
    assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-query"));
}

#[tokio::test]
async fn concurrent_applies_succeed_or_are_refused() {
    let server = Running::start().await;
    let client = &server.client;
    let answers = futures::future::join_all((2..=33).map(|minutes| async move {
        (minutes, put(client, "parcel?apply=true", &waiting("parcel", &format!("{minutes}m"))).await)
    }));
    let mut applied = 0;
    for (minutes, answer) in answers.await {
        if answer.status == 409 {
            assert_eq!(answer.problem(), "raced", "{answer:?}");
            continue;
        }
        assert_eq!((answer.status, &answer.json()["standing"]), (201, &json!("active")), "{answer:?}");
        let version = &answer.json()["version"];
        let shown = client.get(&format!("/v1/definitions/parcel?version={version}")).await.json();
        assert_eq!(shown["definition"]["steps"][0]["timeout"], format!("{minutes}m"));
        applied += 1;
    }
    let shown = show(client, "parcel").await;
    assert_eq!(shown["staged"], Value::Null, "whoever is refused leaves nothing behind");
    assert_eq!(shown["versions"].as_array().unwrap().len(), applied);
}

#[tokio::test]
async fn a_version_that_is_meant_is_discarded_or_nothing() {
    let server = Running::start().await;
    let client = &server.client;
    put(client, "parcel", &waiting("parcel", "5m")).await;
    put(client, "parcel", &waiting("parcel", "7m")).await;
    let replaced = send(client, Method::DELETE, "parcel/staged?version=1").await;
    assert_eq!((replaced.status, replaced.problem().as_str()), (409, "raced"), "{replaced:?}");
    assert_eq!(replaced.json()["staged"], 2);
    assert!(replaced.json()["detail"].as_str().unwrap().contains("but version 2 is"), "{replaced:?}");
    assert_eq!(show(client, "parcel").await["staged"], 2, "nothing was done");
    let discarded = send(client, Method::DELETE, "parcel/staged?version=2").await;
    assert_eq!((discarded.status, &discarded.json()["discarded"]), (200, &json!(2)));
    let bad = send(client, Method::DELETE, "parcel/staged?version=two").await;
    assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-query"));
}

#[tokio::test]
async fn sagas_in_flight_keep_their_version_and_are_counted() {
    let server = Running::start().await;
    let client = &server.client;
    put(client, "parcel?apply=true", &waiting("parcel", "5m")).await;
    let old = client.start(&json!({"definition": "parcel"})).await;
    put(client, "parcel", &waiting("parcel", "7m")).await;
    let applied = send(client, Method::POST, "parcel/apply").await.json();
    assert_eq!(applied["in_flight"], json!([{"version": 1, "sagas": 1}]));
    let new = client.start(&json!({"definition": "parcel"})).await;
    for (id, version) in [(old, 1), (new, 2)] {
        assert_eq!(client.get(&format!("/v1/sagas/{id}")).await.json()["version"], version);
    }
}

#[tokio::test]
async fn staged_version_is_shown_with_its_changes() {
    let server = Running::start().await;
    let client = &server.client;
    put(client, "parcel?apply=true", &waiting("parcel", "5m")).await;
    put(client, "parcel", &waiting("parcel", "7m")).await;
    let shown = show(client, "parcel").await;
    assert_eq!((&shown["active"], &shown["staged"]), (&json!(1), &json!(2)));
    assert_eq!(shown["definition"]["steps"][0]["timeout"], "5m");
    assert_eq!(shown["staged_definition"]["steps"][0]["timeout"], "7m");
    let change = &shown["changes"][0];
    assert_eq!(change["place"], "steps[pack].timeout", "{shown}");
    assert_eq!((&change["before"], &change["after"]), (&json!("5m"), &json!("7m")));
    let discarded = send(client, Method::DELETE, "parcel/staged").await;
    assert_eq!((discarded.status, discarded.json()), (200, json!({"name": "parcel", "discarded": 2})));
    let nothing = send(client, Method::DELETE, "parcel/staged").await;
    assert_eq!((nothing.status, nothing.problem().as_str()), (409, "nothing-staged"));
    assert_eq!(show(client, "parcel").await["staged"], Value::Null);
    let second = client.get("/v1/definitions/parcel?version=2").await.json();
    assert_eq!(second["definition"]["steps"][0]["timeout"], "7m", "what was discarded can still be read");
}

#[tokio::test]
async fn definitions_are_listed_by_name_a_page_at_a_time() {
    let server = Running::start().await;
    for name in ["c", "a", "b"] {
        put(&server.client, name, &waiting(name, "1m")).await;
    }
    let first = server.client.get("/v1/definitions?limit=2").await.json();
    let names = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&first), ["a", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = server.client.get(&format!("/v1/definitions?limit=2&cursor={cursor}")).await.json();
    assert_eq!((names(&second), &second["next_cursor"]), (vec!["c".to_owned()], &Value::Null));
}

#[tokio::test]
async fn all_errors_are_reported_with_their_paths() {
    let server = Running::start().await;
    let mistaken =
        "name: parcel\nsteps:\n  - id: a\n    retyr: 3\n  - id: a\n    action: { http: { url: ftp://x } }\n";
    let answer = put(&server.client, "parcel", mistaken).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "invalid-fields"));
    let problems = answer.json()["problems"].as_array().unwrap().clone();
    let places: Vec<&str> = problems.iter().map(|problem| problem["place"].as_str().unwrap()).collect();
    for place in ["steps[0].retyr", "steps[0].action", "steps[1].action.http.url"] {
        assert!(places.contains(&place), "{places:?}");
    }
    assert!(problems[0]["message"].as_str().unwrap().contains("retry"), "{problems:?}");
}

#[tokio::test]
async fn broken_yaml_is_reported_with_line_and_column() {
    let server = Running::start().await;
    let answer = put(&server.client, "parcel", "name: parcel\nsteps: [\n").await;
    assert_eq!(answer.status, 422, "{answer:?}");
    let told = answer.json()["problems"].to_string();
    assert!(told.contains("line") && told.contains("column"), "{told}");
}

#[tokio::test]
async fn a_definition_goes_by_the_name_in_its_address() {
    let server = Running::start().await;
    let other = put(&server.client, "letter", &waiting("parcel", "1m")).await;
    assert_eq!((other.status, other.problem().as_str()), (422, "invalid-fields"));
    assert_eq!(other.json()["problems"][0]["place"], "name");
    let code = put(&server.client, "greet?apply=true", &waiting("greet", "1m")).await;
    assert_eq!((code.status, code.problem().as_str()), (409, "name-taken"), "{code:?}");
    let own = put(&server.client, "orders", &waiting("orders", "1m")).await;
    assert_eq!((own.status, own.problem().as_str()), (409, "name-taken"));
}

#[tokio::test]
async fn other_types_and_unknown_names_are_refused() {
    let server = Running::start().await;
    let path = "/v1/definitions/parcel";
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let typed = server.client.send(Method::PUT, path, &form, waiting("parcel", "1m")).await;
    assert_eq!((typed.status, typed.problem().as_str()), (415, "unsupported-media-type"));
    let unknown = server.client.get("/v1/definitions/nowhere").await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "definition-not-found"));
    put(&server.client, "parcel", &waiting("parcel", "1m")).await;
    let version = server.client.get("/v1/definitions/parcel?version=9").await;
    assert_eq!((version.status, version.problem().as_str()), (404, "definition-not-found"));
    let apply = put(&server.client, "parcel?apply=maybe", &waiting("parcel", "1m")).await;
    assert_eq!((apply.status, apply.problem().as_str()), (400, "bad-query"));
}

#[tokio::test]
async fn a_check_shows_the_plans_or_the_mistakes_and_declares_nothing() {
    let server = Running::start().await;
    let two = json!({"name": "two", "steps": [
        {"id": "a", "action": {"http": {"url": "http://localhost/a"}}, "compensate": {"http": {"url": "http://localhost/u"}}},
        {"id": "b", "action": {"worker": {"queue": "q"}}},
    ]});
    let checked = server.client.post("/v1/definitions/check", &two).await;
    assert_eq!(checked.status, 200, "{checked:?}");
    let checked = checked.json();
    assert_eq!((&checked["problems"], &checked["forward"]), (&json!([]), &json!([["a"], ["b"]])));
    assert_eq!(checked["rollbacks"][1]["step"], "b");
    assert_eq!(checked["rollbacks"][1]["said_no"]["undone"], json!([["a"]]));
    let mistaken =
        server.client.post("/v1/definitions/check", &json!({"name": "x", "steps": []})).await.json();
    assert_eq!(mistaken["problems"][0]["place"], "steps");
    let declared = server.client.get("/v1/definitions").await.json();
    assert_eq!(declared["items"], json!([]));
}

#[tokio::test]
async fn header_values_are_shown_to_admins_only() {
    let (server, [viewer, operator, admin]) = Running::with_keys(["viewer", "operator", "admin"]).await;
    let call = json!({ "http": { "url": "http://127.0.0.1:9/pay", "headers": { "X-Secret": "sesame" } } });
    let definition = json!({ "name": "paid", "steps": [{ "id": "pay", "action": call }] });
    let machine = json!({
        "name": "parcel", "initial": "packed", "states": ["packed", "sent"], "terminal": ["sent"],
        "edges": [["packed", "sent"]], "can_fail": ["packed"],
        "actions": { "packed": { "http": call["http"], "next": { "ok": "sent" } } },
    });
    let as_admin = server.client.with_key(&admin);
    for (path, body) in [("/v1/definitions/paid", &definition), ("/v1/lifecycles/parcel", &machine)] {
        let mut other = body.clone();
        other["title"] = json!("another one, to be compared");
        for (place, body) in [(format!("{path}?apply=true"), body), (path.to_owned(), &other)] {
            let json = [("content-type", "application/json")];
            let put = as_admin.send(Method::PUT, &place, &json, body.to_string()).await;
            assert_eq!(put.status, 201, "{put:?}");
        }
        assert!(as_admin.get(path).await.json().to_string().contains("sesame"), "{path}");
        for key in [&viewer, &operator] {
            let shown = server.client.with_key(key).get(path).await.json().to_string();
            assert!(shown.contains("X-Secret") && !shown.contains("sesame"), "{path}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_declaration_without_a_body_is_refused() {
    let server = Running::start().await;
    for (method, path) in [
        (Method::POST, "/v1/definitions/check"),
        (Method::PUT, "/v1/definitions/d"),
        (Method::PUT, "/v1/lifecycles/m"),
    ] {
        for body in ["", " \n"] {
            let answer = server.client.send(method.clone(), path, &[], body).await;
            assert_eq!(
                (answer.status, answer.problem().as_str()),
                (422, "invalid-fields"),
                "{path}: {answer:?}"
            );
        }
    }
}
