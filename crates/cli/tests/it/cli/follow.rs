//! `follow` and `start --follow` without a terminal: plain lines, JSON lines and exit codes.

use std::process::Stdio;

use backstitch_demo::services::Service;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cli::stage::{Stage, on_both_stores};
use crate::support::program::command;
use crate::support::within;

#[tokio::test]
async fn exit_code_shows_how_the_saga_ended() {
    on_both_stores(async |stage| {
        for (wishes, code, words) in [
            (&[][..], 0, "✓ succeeded"),
            (&["refuse:inventory"], 1, "was rolled back (inventory failed: "),
            (&["refuse:inventory", "fail-undo:payment"], 1, "could not be rolled back"),
        ] {
            let input = stage.wishing(wishes);
            let followed = stage.run(&["start", "order", "--input", &input, "--follow"]).await;
            assert_eq!(followed.code, code, "{followed:?}");
            assert!(followed.stdout.contains("step.succeeded  payment"), "{followed:?}");
            assert!(format!("{}{}", followed.stdout, followed.stderr).contains(words), "{followed:?}");
            assert!(!followed.stdout.contains('\u{1b}'), "nothing is drawn where nobody looks: {followed:?}");
        }
        let stuck = stage.run(&["ps", "--status", "failed", "--json"]).await.json();
        let id = stuck["items"][0]["id"].as_str().unwrap();
        let followed = stage.run(&["follow", id]).await;
        assert_eq!(followed.code, 1);
        assert!(followed.stderr.contains(&format!("backstitch resolve {id} STEP")), "{followed:?}");
    })
    .await;
}

#[tokio::test]
async fn programs_get_every_event_on_a_line() {
    on_both_stores(async |stage| {
        let input = stage.wishing(&[]);
        let lines = stage.run(&["start", "order", "--input", &input, "--follow", "--json"]).await.lines();
        let id = lines[0]["id"].as_str().unwrap();
        let log = stage.run(&["log", id, "--json"]).await.lines();
        assert_eq!(lines[1..], log);
        assert_eq!(stage.run(&["follow", id, "--json"]).await.lines(), log);
        assert_eq!(stage.run(&["follow", id, "--json", "--after", "3"]).await.lines(), log[3..]);
        let nothing_more = stage.run(&["follow", id, "--json", "--after", &log.len().to_string()]).await;
        assert_eq!((nothing_more.code, nothing_more.stdout.as_str()), (0, ""));
    })
    .await;
}

#[tokio::test]
async fn resolved_rollback_is_followed_past_its_first_end() {
    let stage = Stage::new().await;
    let id = stage.ended_order(&["refuse:inventory", "fail-undo:payment:1x"], "failed").await;
    stage.run(&["resolve", &id, "payment", "retry", "--note", "ada: again"]).await.good();
    let followed = stage.run(&["follow", &id]).await;
    assert_eq!(followed.code, 1);
    for words in ["saga.failed", "step.resolved  payment  retry: ada: again", "saga.compensated"] {
        assert!(followed.stdout.contains(words), "{words}: {followed:?}");
    }
    assert!(followed.stderr.contains("was rolled back"), "{followed:?}");
}

#[tokio::test]
async fn follow_survives_a_server_restart_without_gaps() {
    on_both_stores(async |mut stage| {
        let id = stage.order(&["hang:logistics:1x"]).await;
        stage.asked_to_do(&id, Service::Logistics).await;
        let mut follow = command(&["follow", &id, "--json", "--patience", "25s"]);
        follow.env("BACKSTITCH_SERVER", &stage.server).stdout(Stdio::piped());
        let mut follow = follow.spawn().unwrap();
        let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
        let (mut events, mut crashed): (Vec<Value>, bool) = (Vec::new(), false);
        while let Some(line) = within(lines.next_line()).await.unwrap() {
            events.push(serde_json::from_str(&line).unwrap());
            let event = &events[events.len() - 1];
            if event["type"] == "step.started"
                && event["step"] == "logistics"
                && !std::mem::replace(&mut crashed, true)
            {
                stage.kill().await;
                stage.restart().await;
            }
        }
        assert_eq!(within(follow.wait()).await.unwrap().code(), Some(0), "{events:?}");
        let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "nothing twice, nothing missing");
        assert_eq!(events.last().unwrap()["type"], json!("saga.succeeded"));
        assert!(events.iter().any(|event| event["type"] == "saga.adopted"), "{events:?}");
    })
    .await;
}
