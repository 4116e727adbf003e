//! Data is escaped.

use serde_json::json;

use crate::cli::every_verb::{VERBS, Words};
use crate::cli::help::verbs;
use crate::cli::stage::{Stage, on_both_stores, run_with};
use crate::cli::stub::Stub;

/// Clears the screen, sets the title, moves the cursor, rings, in one byte and in two, and turns text around.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;gotcha\u{7}\u{9b}31m\u{90}q\u{7f}\r\u{8}\u{202e}evil\u{2028}";

fn is_nasty(char: char) -> bool {
    (char.is_control() && char != '\n') || matches!(char, '\u{202e}' | '\u{2028}')
}

#[tokio::test]
async fn a_payload_full_of_escapes_stays_text() {
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
async fn typed_text_is_escaped_in_errors() {
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

/// What a verb printed, and what a program would have got of it.
async fn printed_by(verb: &[&str], input: &str, server: &Stub) -> String {
    let mut told = String::new();
    for json in [&[][..], &["--json"]] {
        let ran = run_with(&[verb, json].concat(), &[("BACKSTITCH_SERVER", &server.url())], input).await;
        assert_ne!(ran.code, 2, "{verb:?}: {ran:?}");
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains(is_nasty), "{verb:?}: {text:?}");
        }
        told += &ran.stdout;
        told += &ran.stderr;
    }
    told
}

#[tokio::test]
async fn whatever_a_server_says_stays_text_in_every_verb() {
    for verb in verbs().await {
        let is_tried = VERBS
            .iter()
            .any(|(words, _)| words.starts_with(&verb.iter().map(String::as_str).collect::<Vec<_>>()));
        assert!(is_tried, "{verb:?} is not among those that are tried");
    }
    let problem = json!({"type": format!("/docs/errors/{NASTY}"), "title": NASTY, "status": 409, "detail": NASTY,
        "problems": [{"place": NASTY, "message": NASTY}], "needed_role": NASTY});
    let refusing = Stub::answering("409 Conflict", "application/problem+json", &problem.to_string()).await;
    let mut shown = 0;
    for status in [NASTY, "compensated"] {
        let hostile = Words { text: NASTY, id: NASTY, status, findings: 1 }.spoken().await;
        for (verb, input) in VERBS {
            let told = printed_by(verb, input, &hostile).await;
            shown += usize::from(told.contains("\\u{1b}[2J"));
        }
    }
    assert!(shown > VERBS.len(), "most of them show something of it: {shown}");
    for (verb, input) in VERBS {
        let told = printed_by(verb, input, &refusing).await;
        assert!(told.contains("\\u{1b}[2J"), "{verb:?}: {told}");
    }
}
