//! Whatever is in the data, it stays text.

use serde_json::json;

use crate::stage::{Stage, on_both_stores};

/// Clears the screen, sets the title, moves the cursor, rings, in one byte and in two, and turns text around.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;gotcha\u{7}\u{9b}31m\u{90}q\u{7f}\r\u{8}\u{202e}evil\u{2028}";

fn is_nasty(char: char) -> bool {
    (char.is_control() && char != '\n') || matches!(char, '\u{202e}' | '\u{2028}')
}

#[tokio::test]
async fn a_payload_full_of_escapes_stays_text_in_every_verb() {
    on_both_stores(async |stage| {
        let input = stage.file("nasty.json", &json!({ "items": [], "note": NASTY }).to_string());
        let start = ["start", "order", "--input", &input, "--correlation-id", NASTY, "--follow"];
        let attribute = format!("a={NASTY}");
        let started = stage.run(&[&start[..], &["--attr", &attribute]].concat()).await;
        assert_eq!(started.code, 0, "{started:?}");
        let id = stage.run(&["ps", "--json"]).await.json()["items"][0]["id"].as_str().unwrap().to_owned();
        for arguments in [&["ps"][..], &["show", &id], &["log", &id], &["follow", &id], &["audit"]] {
            for json in [&[][..], &["--json"]] {
                let ran = stage.run(&[arguments, json].concat()).await;
                assert_eq!(ran.code, 0, "{ran:?}");
                assert!(!ran.stdout.contains(is_nasty), "{arguments:?}: {:?}", ran.stdout);
                assert!(!ran.stderr.contains(is_nasty), "{arguments:?}: {:?}", ran.stderr);
            }
        }
        let shown = stage.run(&["show", &id, "--json"]).await.json();
        assert_eq!(shown["input"]["note"], NASTY, "JSON means the same all the same");
        assert_eq!(shown["correlation_id"], NASTY);
        let shown = stage.run(&["show", &id]).await.good();
        assert!(shown.contains("\\u{1b}[2J"), "{shown}");
    })
    .await;
}

#[tokio::test]
async fn what_was_typed_is_not_sent_back_raw_either() {
    let stage = Stage::new().await;
    for arguments in [
        &["show", NASTY][..],
        &["start", NASTY],
        &["definitions", "show", NASTY],
        &["lifecycles", "show", NASTY],
        &["lifecycles", "show", "site-provisioning", NASTY],
        &["ps", "--status", NASTY],
    ] {
        let told = stage.run(arguments).await.failed();
        assert!(!told.contains(is_nasty), "{arguments:?}: {told:?}");
    }
}
