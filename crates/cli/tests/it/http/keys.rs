//! API keys and stream tokens.

use backstitch_server::{Config, Server};
use futures::StreamExt;
use hyper::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::http::support::{Client, EventStream, Running, create_key, expire_key, output_of, within};

#[tokio::test]
async fn without_a_single_key_a_loopback_server_is_open() {
    let server = Running::start().await;
    assert_eq!(server.client.get("/v1/sagas").await.status, 200);
}

#[tokio::test]
async fn keyless_server_refuses_foreign_hosts_and_origins() {
    let server = Running::start().await;
    let client = &server.client;
    for (header, value) in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        for (method, path) in [(Method::GET, "/v1/sagas"), (Method::POST, "/v1/outbox/1/retry")] {
            let answer = client.send(method, path, &[(header, value)], "").await;
            assert_eq!((answer.status, answer.problem().as_str()), (403, "forbidden"), "{header}: {value}");
            assert!(answer.detail().contains("keys create"), "{}", answer.detail());
        }
    }
    for (header, value) in [
        ("host", "localhost:1"),
        ("host", "127.0.0.1"),
        ("origin", "http://localhost:5173"),
        ("sec-fetch-site", "same-origin"),
        ("user-agent", "curl/8"),
    ] {
        assert_eq!(
            client.send(Method::GET, "/v1/sagas", &[(header, value)], "").await.status,
            200,
            "{value}"
        );
    }
    let probe = [("host", "evil.example")];
    assert_eq!(client.send(Method::GET, "/health/live", &probe, "").await.status, 200, "it needs nothing");

    let (closed, [viewer]) = Running::with_keys(["viewer"]).await;
    let client = closed.client.with_key(&viewer);
    let elsewhere = [("host", "sagas.example"), ("origin", "https://evil.example")];
    assert_eq!(
        client.send(Method::GET, "/v1/sagas", &elsewhere, "").await.status,
        200,
        "a key says who asks"
    );
}

#[tokio::test]
async fn a_missing_malformed_or_unknown_key_is_refused() {
    let (server, [_]) = Running::with_keys(["viewer"]).await;
    let unknown = format!("bsk_{}", "A".repeat(43));
    for header in [
        None,
        Some("Basic dXNlcg==".to_owned()),
        Some("Bearer".to_owned()),
        Some("Bearer bsk_x".to_owned()),
        Some(format!("Bearer {unknown}")),
    ] {
        let headers: Vec<_> = header.iter().map(|header| ("authorization", header.as_str())).collect();
        let answer = server.client.send(Method::GET, "/v1/sagas", &headers, "").await;
        assert_eq!((answer.status, answer.problem().as_str()), (401, "unauthenticated"), "{header:?}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"backstitch\"");
    }
}

#[tokio::test]
async fn insufficient_role_error_names_the_needed_role() {
    let (server, [viewer]) = Running::with_keys(["viewer"]).await;
    let answer = server.client.with_key(&viewer).post("/v1/sagas", &json!({ "definition": "greet" })).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "forbidden"));
    assert_eq!(answer.json()["needed_role"], "client");
    assert!(answer.detail().contains("role client"), "{}", answer.detail());
}

#[tokio::test]
async fn the_first_key_closes_an_open_server_and_works_at_once() {
    let server = Running::start().await;
    let key = create_key(&server.db, "viewer").await;
    // The server may trust its last look at the keys for two seconds.
    within(async { while server.client.get("/v1/sagas").await.status != 401 {} }).await;
    assert_eq!(server.client.with_key(&key).get("/v1/sagas").await.status, 200);
}

#[tokio::test]
async fn a_new_key_works_without_a_restart() {
    let (server, [_]) = Running::with_keys(["admin"]).await;
    let key = create_key(&server.db, "viewer").await;
    let client = server.client.with_key(&key);
    within(async { while client.get("/v1/sagas").await.status != 200 {} }).await;
}

async fn refused(client: &Client) -> String {
    within(async {
        loop {
            let answer = client.get("/v1/sagas").await;
            if answer.status == 401 {
                return answer.detail();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_soon_after() {
    let (server, [viewer, _]) = Running::with_keys(["viewer", "admin"]).await;
    let client = server.client.with_key(&viewer);
    assert_eq!(client.get("/v1/sagas").await.status, 200);
    let revoked = output_of(&["keys", "--db", &server.db, "revoke", "1"]).await;
    assert!(revoked.status.success());
    assert!(refused(&client).await.contains("revoked"));
    let again = output_of(&["keys", "--db", &server.db, "revoke", "1"]).await;
    assert_eq!(again.status.code(), Some(1), "it can be revoked once");
}

#[tokio::test]
async fn revoking_the_last_key_opens_nothing() {
    let (server, [viewer]) = Running::with_keys(["viewer"]).await;
    output_of(&["keys", "--db", &server.db, "revoke", "1"]).await;
    refused(&server.client.with_key(&viewer)).await;
    assert_eq!(server.client.get("/v1/sagas").await.status, 401);
}

#[tokio::test]
async fn an_expired_key_is_refused() {
    let (server, [_]) = Running::with_keys(["admin"]).await;
    let made = output_of(&[
        "keys",
        "--db",
        &server.db,
        "create",
        "--role",
        "viewer",
        "--name",
        "short",
        "--expires",
        "1ms",
    ])
    .await;
    let key = String::from_utf8(made.stdout).unwrap();
    assert!(refused(&server.client.with_key(key.trim())).await.contains("API key"));
    within(async {
        let client = server.client.with_key(key.trim());
        while !client.get("/v1/sagas").await.detail().contains("expired") {}
    })
    .await;
}

#[tokio::test]
async fn keys_are_listed_without_the_keys() {
    let (server, [viewer, admin]) = Running::with_keys(["viewer", "admin"]).await;
    let listed = output_of(&["keys", "--db", &server.db, "list", "--json"]).await;
    let text = String::from_utf8(listed.stdout).unwrap();
    let listed: Value = serde_json::from_str(&text).unwrap();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    for (item, key) in items.iter().zip([&viewer, &admin]) {
        assert!(key.ends_with(item["last_four"].as_str().unwrap()));
        assert!(!text.contains(&key[..12]));
        assert_eq!((&item["name"], &item["state"]), (&json!("a test"), &json!("good")));
    }
    let table = output_of(&["keys", "--db", &server.db, "list"]).await;
    assert!(String::from_utf8(table.stdout).unwrap().contains("viewer"));
}

#[tokio::test]
async fn the_database_holds_no_key() {
    let (server, [key]) = Running::with_keys(["admin"]).await;
    let path = server.db.strip_prefix("sqlite:").unwrap().to_owned();
    for file in [path.clone(), format!("{path}-wal")] {
        let bytes = std::fs::read(file).unwrap_or_default();
        assert!(!bytes.windows(12).any(|window| window == &key.as_bytes()[4..16]));
    }
}

#[tokio::test]
async fn invalid_key_commands_say_what_is_wrong() {
    let server = Running::start().await;
    let role = output_of(&["keys", "--db", &server.db, "create", "--role", "root", "--name", "n"]).await;
    assert_eq!(role.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&role.stderr).contains("viewer, client, worker, operator, admin"));
    let name = output_of(&["keys", "--db", &server.db, "create", "--role", "admin", "--name", " "]).await;
    assert_eq!(name.status.code(), Some(1));
    let none = output_of(&["keys", "--db", &server.db, "revoke", "17"]).await;
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no key 17"));
}

#[tokio::test]
async fn a_stream_token_opens_its_own_saga_and_nothing_else() {
    let (server, [client]) = Running::with_keys(["client"]).await;
    let holder = server.client.with_key(&client);
    let started = holder.post("/v1/sagas", &json!({ "definition": "greet" })).await.json();
    let other = holder.start(&json!({ "definition": "greet" })).await;
    let (id, token) = (started["id"].as_str().unwrap(), started["stream_token"].as_str().unwrap());
    let anybody = &server.client;
    assert_eq!(anybody.get(&format!("/v1/sagas/{id}?wait=30&token={token}")).await.status, 200);
    let events = EventStream::open(anybody, &format!("/v1/sagas/{id}/events?token={token}"), None).await;
    assert!(!events.rest().await.is_empty());
    let socket = format!("ws://{}/v1/sagas/{id}/ws?token={token}", anybody.address);
    within(tokio_tungstenite::connect_async(socket)).await.unwrap();
    for path in [
        format!("/v1/sagas/{other}?token={token}"),
        format!("/v1/sagas/{other}/events?token={token}"),
        format!("/v1/sagas/{other}/ws?token={token}"),
        format!("/v1/sagas/{id}/log?token={token}"),
        format!("/v1/sagas?token={token}"),
        format!("/v1/events?token={token}"),
        format!("/v1/sagas/{id}?token=wrong"),
        format!("/v1/sagas/{id}?token="),
    ] {
        assert_eq!(anybody.get(&path).await.status, 401, "{path}");
    }
    let cancel = anybody.post(&format!("/v1/sagas/{other}/cancel?token={token}"), &json!({})).await;
    assert_eq!(cancel.status, 401);
}

/// Revokes the first key.
async fn revoke_first(server: &Running) {
    let revoked = output_of(&["keys", "--db", &server.db, "revoke", "1"]).await;
    assert!(revoked.status.success());
}

async fn socket_of(server: &Running, id: &str, key: &str) -> impl futures::Stream<Item = Message> + Unpin {
    let address = format!("ws://{}/v1/sagas/{id}/ws", server.client.address);
    let mut request = address.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    let (socket, _) = within(tokio_tungstenite::connect_async(request)).await.unwrap();
    socket.map(Result::unwrap)
}

#[tokio::test]
async fn streams_end_when_their_key_is_revoked() {
    let (server, [client, worker]) = Running::with_keys(["client", "worker"]).await;
    let holder = server.client.with_key(&client);
    let id = holder.start(&json!({ "definition": "gated" })).await;
    let of_saga = EventStream::open(&holder, &format!("/v1/sagas/{id}/events"), None).await;
    let of_all = EventStream::open(&holder, "/v1/events", None).await;
    let mut socket = socket_of(&server, &id, &client).await;
    let path = format!("/v1/sagas/{id}?wait=60");
    let waits = holder.get(&path);
    let revoked = async {
        revoke_first(&server).await;
        let last = within(async {
            while !matches!(socket.next().await.unwrap(), Message::Close(Some(frame)) if frame.code == CloseCode::Policy)
            {
            }
        });
        tokio::join!(of_saga.rest(), of_all.rest(), last)
    };
    let (waited, _) = within(async { tokio::join!(waits, revoked) }).await;
    assert_eq!((waited.status, waited.problem().as_str()), (401, "unauthenticated"));

    let lease = json!({ "queues": ["q"], "limit": 1, "lease_seconds": 30, "wait_seconds": 60 });
    let worker = server.client.with_key(&worker);
    let (leased, _) = within(async {
        let revoke = ["keys", "--db", &server.db, "revoke", "2"];
        tokio::join!(worker.post("/v1/jobs/lease", &lease), output_of(&revoke))
    })
    .await;
    assert_eq!(leased.status, 401, "nobody is handed work by a key that opens nothing");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let (server, [_]) = Running::with_keys(["admin"]).await;
    let create =
        ["keys", "--db", &server.db, "create", "--role", "viewer", "--name", "short", "--expires", "1h"];
    let key = String::from_utf8(output_of(&create).await.stdout).unwrap();
    let holder = server.client.with_key(key.trim());
    within(async { while holder.get("/v1/sagas").await.status != 200 {} }).await;
    let stream = EventStream::open(&holder, "/v1/events", None).await;
    expire_key(&server.db, "short");
    assert!(stream.rest().await.is_empty(), "nothing happened, and it ended");
}

#[tokio::test]
async fn stream_token_ends_with_its_key() {
    let (server, [client]) = Running::with_keys(["client"]).await;
    let holder = server.client.with_key(&client);
    let started = holder.post("/v1/sagas", &json!({ "definition": "gated" })).await.json();
    let (id, token) = (started["id"].as_str().unwrap(), started["stream_token"].as_str().unwrap());
    let by_key = EventStream::open(&holder, &format!("/v1/sagas/{id}/events"), None).await;
    let path = format!("/v1/sagas/{id}/events?token={token}");
    let by_token = EventStream::open(&server.client, &path, None).await;
    revoke_first(&server).await;
    by_key.rest().await;
    let sent = by_token.rest().await;
    assert!(sent.iter().all(|event| event.name != "saga.succeeded"), "it ended before the saga: {sent:?}");
    within(async { while server.client.get(&path).await.status != 401 {} }).await;
    server.switches.open_gate();
}

#[tokio::test]
async fn tokens_in_urls_are_masked_for_viewers() {
    let (server, [admin, viewer]) = Running::with_keys(["admin", "viewer"]).await;
    let (admin, viewer) = (server.client.with_key(&admin), server.client.with_key(&viewer));
    let yaml = "{name: pay, steps: [{id: a, action: {http: {url: 'http://127.0.0.1/x?token=geheim'}}}]}";
    let typed = [("content-type", "application/yaml")];
    let put = admin.send(hyper::Method::PUT, "/v1/definitions/pay?apply=true", &typed, yaml).await;
    assert_eq!(put.status, 201, "{put:?}");
    let at = |name: &str| json!({ "url": format!("http://127.0.0.1/{name}?token=geheim"), "rollback_url": "http://127.0.0.1/?geheim" });
    let services = json!({ "endpoints": { "payment": at("p"), "inventory": at("i"), "logistics": at("l") } });
    let json_body = [("content-type", "application/json")];
    let path = "/v1/admin/config/services";
    let staged = admin.send(hyper::Method::PUT, path, &json_body, services.to_string()).await;
    assert_eq!(staged.status, 200, "{staged:?}");
    let new = json!({ "url": "https://a.example/hook?token=geheim", "event_types": ["*"] });
    let subscription = admin.post("/v1/webhooks/subscriptions", &new).await.json()["id"].clone();
    let shown = format!("/v1/webhooks/subscriptions/{subscription}");
    for path in ["/v1/definitions/pay", path, "/v1/webhooks/subscriptions", &shown] {
        let (all, masked) = (admin.get(path).await, viewer.get(path).await);
        assert_eq!((all.status, masked.status), (200, 200), "{path}");
        let [all, masked] = [all, masked].map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
        assert!(all.contains("geheim"), "{path}: {all}");
        assert!(!masked.contains("geheim") && masked.contains("***"), "{path}: {masked}");
    }
}

#[tokio::test]
async fn first_key_ends_keyless_streams() {
    let server = Running::start().await;
    let stream = EventStream::open(&server.client, "/v1/events", None).await;
    create_key(&server.db, "viewer").await;
    assert!(stream.rest().await.is_empty());
}

#[tokio::test]
async fn a_server_whose_keys_have_lost_their_secret_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sagas.db");
    let db = format!("sqlite:{}", path.display());
    create_key(&db, "admin").await;
    let secret = folder.path().join("sagas.db.key");
    let kept = std::fs::read(&secret).unwrap();
    std::fs::remove_file(&secret).unwrap();
    let config = || Config { listen: ([127, 0, 0, 1], 0).into(), db: db.clone(), ..Config::default() };
    let Err(refused) = Server::bind(config()).await else { panic!("every key would be unknown") };
    let told = refused.to_string();
    assert!(told.contains("sagas.db.key") && told.contains("restore"), "{told}");
    assert!(!secret.exists(), "nothing takes its place");
    let another = output_of(&["keys", "--db", &db, "create", "--role", "admin", "--name", "b"]).await;
    assert_eq!(another.status.code(), Some(1), "nor for a new key");

    // Keys that open nothing lose nothing.
    output_of(&["keys", "--db", &db, "revoke", "1"]).await;
    create_key(&db, "admin").await;
    assert_ne!(std::fs::read(&secret).unwrap(), kept);
    Server::bind(config()).await.unwrap_or_else(|why| panic!("{why}"));
}
