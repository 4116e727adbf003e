//! `outbox`

use serde_json::json;

use crate::cli::stage::Stage;
use crate::cli::stub::Stub;
use crate::support::within;

#[tokio::test]
async fn messages_are_published_listed_shown_and_sent_again() {
    let receiver = Stub::answering("422 Unprocessable Content", "application/json", "{}").await;
    let config = tempfile::NamedTempFile::new().unwrap();
    let topic =
        format!("[outbox.topics.news]\nadapter = \"http\"\nurl = \"{}\"\nmax_attempts = 1\n", receiver.url());
    std::fs::write(config.path(), topic).unwrap();
    let stage = Stage::with(&[("BACKSTITCH_CONFIG", config.path().to_str().unwrap())]).await;
    let payload = json!({ "a": "\u{1b}[31m" }).to_string();
    let publish = ["outbox", "publish", "news", "--key", "n-1", "--ordering-key", "k", "--payload", "-"];
    let accepted = stage.run_on(&publish, &payload).await.good();
    assert!(accepted.starts_with("message ") && accepted.contains(" for news is "), "{accepted}");
    let other = stage.run_on(&publish, "{}").await.failed();
    assert!(other.contains("/docs/errors/idempotency-conflict"), "{other}");
    let nowhere = stage.run(&["outbox", "publish", "nowhere"]).await.failed();
    assert!(nowhere.contains("/docs/errors/unknown-topic"), "{nowhere}");
    let aborted = within(async {
        loop {
            let page =
                stage.run(&["outbox", "--status", "aborted", "--topic", "news", "--json"]).await.json();
            if let Some(message) = page["items"].get(0) {
                return message["id"].to_string();
            }
        }
    })
    .await;
    let listed = stage.run(&["outbox"]).await.good();
    assert!(listed.lines().nth(1).unwrap().starts_with(&aborted) && listed.contains("✗ aborted"), "{listed}");
    assert!(stage.run(&["outbox", "list"]).await.good().lines().nth(1).unwrap().starts_with(&aborted));
    let shown = stage.run(&["outbox", "show", &aborted]).await.good();
    assert!(shown.contains("n-1") && shown.contains("news") && !shown.contains('\u{1b}'), "{shown}");
    let again = stage.run(&["outbox", "retry", &aborted]).await.good();
    assert!(again.starts_with(&format!("message {aborted} is sent again as message ")), "{again}");
    let unknown = stage.run(&["outbox", "show", "9999"]).await.failed();
    assert!(unknown.contains("there is no message 9999"), "{unknown}");
}
