//! Header values of declared calls: encrypted in the database, decrypted for the called services.

use std::sync::Arc;

use backstitch::clock::SystemClock;
use backstitch::{Engine, Options};
use backstitch_modules::declaration::{Declaration, Format};
use backstitch_modules::http_call::{HttpCaller, Limits};
use backstitch_server::config::Secret;
use backstitch_testkit::service::{Reply, Service};
use hyper::Method;
use serde_json::{Value, json};

use crate::http::support::{Running, SECRET, within};
use crate::support::{Client, Place, on_both};

const OTHER_SECRET: &str = "another secret that is long enough for everything";

async fn server(place: &Place, secret: Option<&str>) -> Running {
    let secret = secret.map(Secret::new);
    Running::on(tempfile::tempdir().unwrap(), place.db(), |config| config.secret = secret).await
}

fn call(service: &Service) -> Value {
    json!({ "http": { "url": service.url(), "headers": { "X-Secret": "sesame" } } })
}

/// A saga `paid` that calls the service and is compensated there.
fn definition(service: &Service) -> Value {
    let step = json!({ "id": "pay", "action": call(service), "compensate": call(service), "retry": 0 });
    let refused = json!({ "http": { "url": "http://127.0.0.1:9/", "headers": { "X-Other": "sesame" } } });
    json!({ "name": "paid", "steps": [step, { "id": "refused", "action": refused, "retry": 0 }] })
}

/// A lifecycle `parcel` that calls the service.
fn machine(service: &Service) -> Value {
    json!({
        "name": "parcel", "initial": "packed", "states": ["packed", "sent"], "terminal": ["sent"],
        "edges": [["packed", "sent"]], "can_fail": ["packed"],
        "actions": { "packed": { "http": call(service)["http"], "next": { "ok": "sent" } } },
    })
}

async fn put(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    let answer =
        client.send(Method::PUT, path, &[("content-type", "application/json")], body.to_string()).await;
    (answer.status, answer.json())
}

/// Everything that the database holds, as text.
async fn everything(place: &Place) -> String {
    let tables = match place {
        Place::Sqlite(folder) => {
            let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
            let bytes: Vec<u8> = files.flat_map(|file| std::fs::read(file).unwrap()).collect();
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        Place::Postgres(_) => {
            let sql = "select format('%I.%I', schemaname, tablename) from pg_tables
                where schemaname not in ('pg_catalog', 'information_schema')";
            place.rows(sql).await
        }
    };
    let mut text = String::new();
    for table in tables.into_iter().flatten().flatten() {
        for row in place.rows(&format!("select t::text from {table} t")).await {
            text.extend(row.into_iter().flatten());
        }
    }
    text
}

fn secrets_heard(service: &Service) -> usize {
    let heard = service.heard();
    assert!(heard.iter().all(|heard| heard.headers["x-secret"] == "sesame"), "{heard:?}");
    heard.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn header_values_are_nowhere_in_the_database() {
    on_both(async |place| {
        let service = Service::always(|| Reply::http(200, "{}")).await;
        let running = server(&place, Some(SECRET)).await;
        for (path, body) in
            [("/v1/definitions/paid", definition(&service)), ("/v1/lifecycles/parcel", machine(&service))]
        {
            let (status, told) = put(&running.client, &format!("{path}?apply=true"), &body).await;
            assert_eq!(status, 201, "{told}");
            let mut staged = body;
            staged["title"] = json!("staged");
            assert_eq!(put(&running.client, path, &staged).await.0, 201);
            let shown = running.client.get(path).await.json();
            assert!(shown["definition"].to_string().contains("sesame"), "{shown}");
        }
        let saga = running.client.run(&json!({ "definition": "paid" })).await;
        assert_eq!(saga["status"], "compensated", "{saga}");
        assert_eq!(secrets_heard(&service), 2);
        assert_eq!(running.client.post("/v1/lifecycles/parcel/p-1/start", &json!({})).await.status, 202);
        within(async {
            while secrets_heard(&service) < 3 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        running.ended().await;
        let held = everything(&place).await;
        assert!(held.contains("X-Secret") && held.contains(&service.url()), "that is looked at");
        assert!(!held.contains("sesame"));

        let restarted = server(&place, Some(SECRET)).await;
        restarted.client.run(&json!({ "definition": "paid" })).await;
        assert_eq!(secrets_heard(&service), 5, "another process can use them");
        restarted.ended().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_header_value_is_seen_as_a_change() {
    on_both(async |place| {
        let service = Service::always(|| Reply::http(200, "{}")).await;
        let running = server(&place, Some(SECRET)).await;
        for (path, mut body, value) in [
            ("/v1/definitions/paid", definition(&service), "/steps/0/action/http/headers/X-Secret"),
            ("/v1/lifecycles/parcel", machine(&service), "/actions/packed/http/headers/X-Secret"),
        ] {
            let applied = format!("{path}?apply=true");
            assert_eq!(put(&running.client, &applied, &body).await.0, 201);
            let (status, told) = put(&running.client, &applied, &body).await;
            assert_eq!((status, &told["version"]), (200, &json!(1)), "the same: {told}");
            *body.pointer_mut(value).unwrap() = json!("open sesame");
            let (status, told) = put(&running.client, path, &body).await;
            assert_eq!((status, &told["version"]), (201, &json!(2)), "{told}");
        }
        let shown = running.client.get("/v1/definitions/paid").await.json();
        let changes = shown["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{shown}");
        assert_eq!(changes[0]["place"], "steps[pay].action.http.headers.X-Secret");
        running.ended().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_secret_is_a_clear_error() {
    on_both(async |place| {
        let service = Service::always(|| Reply::http(200, "{}")).await;
        let first = server(&place, Some(SECRET)).await;
        assert_eq!(put(&first.client, "/v1/definitions/paid?apply=true", &definition(&service)).await.0, 201);
        first.ended().await;
        let running = server(&place, Some(OTHER_SECRET)).await;
        let saga = running.client.run(&json!({ "definition": "paid" })).await;
        assert_eq!(
            (&saga["failed_step"], &saga["error"]["code"]),
            (&json!("pay"), &json!("HEADER_UNREADABLE"))
        );
        let message = saga["error"]["message"].as_str().unwrap();
        assert!(message.contains("`X-Secret`") && message.contains("`secret`"), "{message}");
        assert!(service.heard().is_empty(), "nothing is sent without its headers");
        let doctor = running.client.get("/v1/doctor").await.json().to_string();
        assert!(doctor.contains("definition paid") && doctor.contains("another secret"), "{doctor}");
        let shown = running.client.get("/v1/definitions/paid").await.json().to_string();
        assert!(shown.contains("another secret") && !shown.contains("sesame"), "{shown}");
        assert_eq!(
            put(&running.client, "/v1/definitions/paid?apply=true", &definition(&service)).await.0,
            201
        );
        running.client.run(&json!({ "definition": "paid" })).await;
        assert_eq!(secrets_heard(&service), 2, "declared again it works");
        running.ended().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_header_values_of_earlier_versions_keep_working() {
    on_both(async |place| {
        let service = Service::always(|| Reply::http(200, "{}")).await;
        // As earlier versions stored them.
        let caller = Arc::new(HttpCaller::new(&Limits::default(), Arc::new(SystemClock)).unwrap());
        let options = Options { caller: Some(caller), ..Options::default() };
        let engine = Engine::open_with(&place.db(), options).await.unwrap();
        let draft = Declaration::read(definition(&service).to_string().as_bytes(), Format::Json).unwrap();
        engine.declare_and_apply(draft).await.unwrap();
        engine.shutdown().await.unwrap();
        let running = server(&place, Some(SECRET)).await;
        running.client.run(&json!({ "definition": "paid" })).await;
        assert_eq!(secrets_heard(&service), 2);
        let doctor = running.client.get("/v1/doctor").await.json().to_string();
        assert!(doctor.contains("definition paid") && doctor.contains("plain text"), "{doctor}");
        let (status, told) =
            put(&running.client, "/v1/definitions/paid?apply=true", &definition(&service)).await;
        assert_eq!((status, &told["version"]), (201, &json!(2)), "encrypted with the next write: {told}");
        let bodies =
            place.rows("select version, body from definitions where name = 'paid' order by version").await;
        let is_plain = |row: &Vec<Option<String>>| row[1].as_ref().unwrap().contains("sesame");
        assert_eq!(bodies.iter().map(is_plain).collect::<Vec<_>>(), [true, false]);
        running.client.run(&json!({ "definition": "paid" })).await;
        assert_eq!(secrets_heard(&service), 4);
        running.ended().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_the_same_secret_share_header_values() {
    let place = Place::Postgres(crate::support::fresh_database().await);
    let service = Service::always(|| Reply::http(200, "{}")).await;
    let (one, other) = (server(&place, Some(SECRET)).await, server(&place, Some(SECRET)).await);
    assert_eq!(put(&one.client, "/v1/definitions/paid?apply=true", &definition(&service)).await.0, 201);
    let again = put(&other.client, "/v1/definitions/paid?apply=true", &definition(&service)).await;
    assert_eq!((again.0, &again.1["version"]), (200, &json!(1)), "to both it is the same");
    one.ended().await;
    let saga = other.client.run(&json!({ "definition": "paid" })).await;
    assert_eq!(saga["status"], "compensated", "{saga}");
    assert_eq!(secrets_heard(&service), 2);
    other.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn header_values_need_a_secret_on_postgres() {
    let place = Place::Postgres(crate::support::fresh_database().await);
    let service = Service::always(|| Reply::http(200, "{}")).await;
    let running = server(&place, None).await;
    for (path, body, at) in [
        ("/v1/definitions/paid", definition(&service), "steps[0].action"),
        ("/v1/lifecycles/parcel", machine(&service), "actions.packed"),
    ] {
        let (status, told) = put(&running.client, path, &body).await;
        let told = told.to_string();
        assert_eq!(status, 422, "{told}");
        assert!(told.contains(at) && told.contains("set `secret`") && !told.contains("sesame"), "{told}");
    }
    let bare = json!({ "http": { "url": service.url() } });
    let bare = json!({ "name": "bare", "steps": [{ "id": "pay", "action": bare }] });
    assert_eq!(put(&running.client, "/v1/definitions/bare?apply=true", &bare).await.0, 201);
    let saga = running.client.run(&json!({ "definition": "bare" })).await;
    assert_eq!(saga["status"], "succeeded", "calls without headers need none: {saga}");
    running.ended().await;
}
