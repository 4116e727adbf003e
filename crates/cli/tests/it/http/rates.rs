//! Rate limits, and guessed keys.

use serde_json::json;

use crate::http::support::{Answer, Client, Running, create_key, within};

/// Asks until it is too often. How many answers came before, each with this status.
async fn until_too_many(client: &Client, expected: u16) -> (usize, Answer) {
    within(async {
        let mut before = 0;
        loop {
            let answer = client.get("/v1/sagas").await;
            if answer.status == 429 {
                return (before, answer);
            }
            assert_eq!(answer.status, expected, "{answer:?}");
            before += 1;
        }
    })
    .await
}

#[tokio::test]
async fn rate_limited_client_gets_retry_after() {
    let server = Running::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 3;
    })
    .await;
    let (before, refused) = until_too_many(&server.client, 200).await;
    assert!(before >= 3, "{before}");
    assert_eq!(
        (refused.problem().as_str(), refused.headers["retry-after"].to_str().unwrap()),
        ("too-many-requests", "1")
    );
    for path in ["/health/live", "/health/ready", "/metrics"] {
        for _ in 0..10 {
            assert_eq!(server.client.get(path).await.status, 200, "{path} is never limited");
        }
    }
}

#[tokio::test]
async fn each_key_is_counted_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let db = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let (busy, quiet) = (create_key(&db, "viewer").await, create_key(&db, "viewer").await);
    let server = Running::on(folder, db, |config| config.limits.requests_per_second = 1).await;
    until_too_many(&server.client.with_key(&busy), 200).await;
    assert_eq!(server.client.with_key(&quiet).get("/v1/sagas").await.status, 200);
    // What is forbidden counts too.
    let forbidden = async || server.client.with_key(&quiet).post("/v1/sagas", &json!({})).await.status;
    within(async { while forbidden().await != 429 {} }).await;
}

#[tokio::test]
async fn request_without_a_key_is_counted_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let db = format!("sqlite:{}", folder.path().join("sagas.db").display());
    let good = create_key(&db, "viewer").await;
    let server = Running::on(folder, db, |config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 3;
    })
    .await;
    let (before, refused) = until_too_many(&server.client, 401).await;
    assert!(before >= 3, "{before}");
    assert_eq!(refused.problem(), "too-many-requests");
    assert!(refused.detail().contains("too many requests"), "{}", refused.detail());
    // Another kind of header is no key either.
    let basic = [("authorization", "Basic YWRhOmxvdmVsYWNl")];
    let status = async || server.client.send(hyper::Method::GET, "/v1/sagas", &basic, "").await.status;
    within(async { while status().await != 429 {} }).await;
    assert_eq!(server.client.with_key(&good).get("/v1/sagas").await.status, 200);
    for _ in 0..10 {
        assert_eq!(server.client.get("/metrics").await.status, 401, "/metrics is never limited");
    }
}

#[tokio::test]
async fn wrong_keys_are_limited_and_a_valid_key_is_not() {
    let (server, [good]) = Running::with_keys(["viewer"]).await;
    let guesser = server.client.with_key(&format!("bsk_{}", "A".repeat(43)));
    let (before, refused) = until_too_many(&guesser, 401).await;
    assert!(before >= 20, "{before}");
    assert_eq!(refused.problem(), "too-many-requests");
    let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=3).contains(&wait), "{wait}");
    assert!(refused.detail().contains("wrong API keys"), "{}", refused.detail());
    // One that ends like the good one is wrong all the same.
    let alike = format!("bsk_{}{}", "A".repeat(39), &good[good.len() - 4..]);
    within(async { while server.client.with_key(&alike).get("/v1/sagas").await.status != 429 {} }).await;
    for _ in 0..30 {
        assert_eq!(server.client.with_key(&good).get("/v1/sagas").await.status, 200);
    }
    assert_eq!(server.client.get("/v1/sagas").await.status, 401, "no key is no wrong key");
}

#[tokio::test]
async fn new_key_works_from_a_limited_address() {
    let (server, [_]) = Running::with_keys(["admin"]).await;
    until_too_many(&server.client.with_key("wrong"), 401).await;
    let new = server.client.with_key(&create_key(&server.db, "viewer").await);
    within(async { while new.get("/v1/sagas").await.status != 200 {} }).await;
}
