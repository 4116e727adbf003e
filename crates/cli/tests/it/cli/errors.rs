//! Error messages with their remedies.

use serde_json::json;

use crate::cli::stage::{Stage, run_unread, run_with};
use crate::cli::stub::Stub;
use crate::support::create_key;

async fn ps(server: &str) -> String {
    run_with(&["ps", "--server", server], &[], "").await.failed()
}

#[tokio::test]
async fn a_server_that_does_not_run_is_named_with_how_to_start_one() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let told = ps(&format!("http://{free}")).await;
    for words in [&free.to_string(), "backstitch serve", "--server", "BACKSTITCH_SERVER"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(ps("http://no-such-host.invalid").await.contains("no-such-host.invalid"));
}

#[tokio::test]
async fn foreign_server_is_reported() {
    let page = "<html>\u{1b}]0;gotcha\u{7}hello</html>";
    for stub in [
        Stub::answering("200 OK", "text/html", page).await,
        Stub::answering("404 Not Found", "text/html", page).await,
        Stub::answering("200 OK", "application/json", "{\"hello\":1}").await,
        Stub::answering("400 Bad Request", "application/json", "{\"error\":\"no\"}").await,
        Stub::saying("SSH-2.0-OpenSSH_9.9\r\n").await,
    ] {
        let told = ps(&stub.url()).await;
        assert!(told.contains("is not a Backstitch server") && told.contains(&stub.url()), "{told}");
        assert!(!told.contains('\u{1b}') && !told.contains('\u{7}'), "{told:?}");
    }
    let proxy = Stub::answering("502 Bad Gateway", "text/plain", "").await;
    assert!(ps(&proxy.url()).await.contains("cannot reach it now"));
    let silent = Stub::saying("").await;
    assert!(ps(&silent.url()).await.contains("broke off"), "a connection that ends without a word");
}

#[tokio::test]
async fn key_errors_say_how_to_create_a_key() {
    let mut stage = Stage::new().await;
    let viewer = create_key(&stage.place.db(), "viewer").await;
    // A server that is new knows of it at once.
    stage.kill().await;
    stage.restart().await;
    let server = stage.server.as_str();
    let asked = async |arguments: &[&str], key: &str| {
        run_with(arguments, &[("BACKSTITCH_SERVER", server), ("BACKSTITCH_KEY", key)], "").await
    };
    let none = run_with(&["ps"], &[("BACKSTITCH_SERVER", server)], "").await.failed();
    for words in ["backstitch keys create", "--key-file", "BACKSTITCH_KEY", "/docs/errors/unauthenticated"] {
        assert!(none.contains(words), "{words}: {none}");
    }
    let wrong = asked(&["ps"], "bsk_nobody_knows_this_one").await;
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("unknown") && !wrong.stderr.contains("bsk_nobody"), "{wrong:?}");
    asked(&["ps"], &format!("  {viewer}\n")).await.good();
    let weak = asked(&["start", "order"], &viewer).await.failed();
    assert!(weak.contains("--role client") && weak.contains("/docs/errors/forbidden"), "{weak}");
    let broken = asked(&["ps"], "bsk_a\nb").await.failed();
    assert!(broken.contains("the API key") && !broken.contains("bsk_a"), "{broken}");

    let file = stage.file("key", &format!("{viewer}\n"));
    run_with(&["ps", "--server", server, "--key-file", &file], &[("BACKSTITCH_KEY", "wrong")], "")
        .await
        .good();
    let missing = run_with(&["ps", "--key-file", "/nowhere/key"], &[], "").await.failed();
    assert!(missing.contains("/nowhere/key cannot be read"), "{missing}");
    let problem = run_with(&["ps", "--json"], &[("BACKSTITCH_SERVER", server)], "").await;
    let problem: serde_json::Value = serde_json::from_str(&problem.stdout).unwrap();
    assert_eq!(problem["status"], 401);
}

#[tokio::test]
async fn a_key_is_nowhere_to_be_seen() {
    let stub = Stub::answering("200 OK", "text/html", "no").await;
    let key = "bsk_0123456789abcdefghijklmnop";
    for arguments in [&["ps"][..], &["ps", "--help"], &["ps", "--bad"], &["start", "x", "--follow"]] {
        let variables = [("BACKSTITCH_SERVER", stub.url()), ("BACKSTITCH_KEY", key.to_owned())];
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let ran = run_with(arguments, &variables, "").await;
        assert!(!ran.stdout.contains(&key[4..]) && !ran.stderr.contains(&key[4..]), "{ran:?}");
    }
}

#[tokio::test]
async fn wrong_usage_has_an_exit_code_of_its_own() {
    for arguments in [
        &["ps", "--no-such-flag"][..],
        &["ps", "--server", "ftp://host"],
        &["ps", "--limit", "many"],
        &["ps", "--all", "--cursor", "x"],
        &["start"],
        &["start", "order", "--attr", "novalue"],
        &["start", "order", "--deadline", "soon"],
        &["follow", "x", "--patience", "soon"],
        &["webhooks"],
        &["webhooks", "subscriptions", "create", "--url", "http://x"],
        &["completions", "tcsh"],
    ] {
        let ran = run_with(arguments, &[], "").await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {ran:?}");
    }
    let told = run_with(&["ps"], &[("BACKSTITCH_SERVER", "ftp://host")], "").await;
    assert_eq!(told.code, 2, "{told:?}");
}

#[tokio::test]
async fn servers_parameter_error_is_shown() {
    let stage = Stage::new().await;
    let told = stage.run(&["ps", "--status", "done"]).await.failed();
    assert!(told.contains("use pending, running") && told.contains("/docs/errors/bad-query"), "{told}");
}

#[tokio::test]
async fn closed_output_pipe_is_no_error() {
    let stage = Stage::new().await;
    for _ in 0..3 {
        stage.order(&[]).await;
    }
    let variables = [("BACKSTITCH_SERVER", stage.server.as_str())];
    let ran = run_unread(&["ps", "--all", "--limit", "1"], &variables).await;
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
}

#[tokio::test]
async fn a_problem_of_a_server_stays_text() {
    let problem = json!({"type": "/docs/errors/x\u{1b}[0m", "title": "t", "status": 409, "detail": "\u{1b}[2Jgone\u{9b}1m",
        "problems": [{"place": "a\nbackstitch: all is well", "message": "\u{202e}x"}]});
    let stub = Stub::answering("409 Conflict", "application/problem+json", &problem.to_string()).await;
    let told = ps(&stub.url()).await;
    assert!(!told.contains(|char: char| char.is_control() && char != '\n'), "{told:?}");
    assert!(
        !told.contains('\u{202e}') && !told.lines().skip(1).any(|line| line.starts_with("backstitch")),
        "{told}"
    );
}
