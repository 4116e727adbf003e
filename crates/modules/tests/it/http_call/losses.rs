//! Services that cannot be reached, go away half-way or never answer.

use backstitch::{Draft, ErrorKind, Payload, Performer, Status, StepStatus, secs};
use backstitch_modules::http_call::Limits;
use serde_json::Value;

use crate::http_call::stage::{Stage, error, once, one_step};
use backstitch_testkit::service::{Heard, Reply, Service, babbler, nobody};

#[tokio::test]
async fn a_refused_connection_means_not_done() {
    let error = error(&nobody().await).await;
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Failed, Some("CANNOT_CONNECT")), "{error}");
}

#[tokio::test]
async fn a_host_that_does_not_exist_means_not_done() {
    let stage = Stage::within(&Limits { connect_within: secs(5), ..Limits::default() }).await;
    stage.declare(&once("http://nowhere.invalid/call"));
    let error = stage.run("once").await.error.unwrap();
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Failed, Some("CANNOT_CONNECT")), "{error}");
}

#[tokio::test]
async fn a_host_that_speaks_no_tls_means_not_done() {
    let error = error(&babbler().await).await;
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Failed, Some("CANNOT_CONNECT")), "{error}");
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_leaves_doubt() {
    for beginning in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let service = Service::always(move || Reply::Last(beginning.into())).await;
        let error = error(&service.url()).await;
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (ErrorKind::InDoubt, Some("CONNECTION_LOST")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_cut_off_leaves_doubt() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ] {
        let service = Service::always(move || Reply::Last(answer.into())).await;
        let error = error(&service.url()).await;
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (ErrorKind::InDoubt, Some("ANSWER_CUT_OFF")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn garbage_leaves_doubt() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-A: b\r\n".repeat(10_000));
    for garbage in
        ["hello\r\n\r\n".to_owned(), "\0\0\0".repeat(100), "HTTP/9.9 200 OK\r\n\r\n".to_owned(), many]
    {
        let service = Service::always(move || Reply::Last(garbage.clone().into())).await;
        let error = error(&service.url()).await;
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (ErrorKind::InDoubt, Some("CONNECTION_LOST")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let service = Service::always(|| Reply::Last("HTTP/1.1 200 OK\r\n\r\n{\"id\": 7}".into())).await;
    let stage = Stage::new().await;
    stage.declare(&once(&service.url()));
    assert_eq!(stage.run("once").await.status, Status::Succeeded);
}

#[tokio::test]
async fn a_service_that_never_answers_times_out_and_is_undone() {
    for beginning in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"] {
        let service = Service::scripted(move |_, heard| match heard.json()["phase"].as_str() {
            Some("undo") => Reply::http(200, ""),
            _ => Reply::Stall(beginning.into()),
        })
        .await;
        let stage = Stage::new().await;
        let undo = format!("compensate: {{http: {{url: '{}'}}}}, retry: 0, timeout: 1s", service.url());
        stage.declare(&one_step(&service.url(), &undo));
        let ended = stage.run("once").await;
        assert_eq!(ended.error.unwrap().kind, ErrorKind::TimedOut);
        assert_eq!(ended.steps[0].status, StepStatus::Compensated);
        let heard = service.heard();
        let undo = heard.iter().map(Heard::json).find(|body| body["phase"] == "undo").unwrap();
        assert_eq!((&undo["result"], &undo["error"]["kind"]), (&Value::Null, &Value::from("timed_out")));
    }
}

#[tokio::test]
async fn a_no_is_a_no_though_its_body_never_ends() {
    let answer = "HTTP/1.1 422 No\r\nContent-Length: 99\r\n\r\n{";
    let service = Service::always(move || Reply::Stall(answer.into())).await;
    let stage = Stage::new().await;
    stage.declare(&one_step(&service.url(), "retry: 0, timeout: 3s"));
    let error = stage.run("once").await.error.unwrap();
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Refused, Some("HTTP_422")), "{error}");
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_refused_with_what_is_wrong() {
    let text = r#"{"name": "odd", "steps": [{"id": "call"}]}"#;
    for (call, complaint) in [
        (r#"{"grpc": {}}"#, "grpc: is not known"),
        (r#"{"http": {"url": "ftp://x"}}"#, "http.url: is neither http nor https"),
        ("7", "is a number"),
    ] {
        let mut draft: Draft = serde_json::from_str(text).unwrap();
        draft.steps[0].action = Performer::Call(Payload::parse(call).unwrap());
        let stage = Stage::new().await;
        stage.register(draft);
        let error = stage.run("odd").await.error.unwrap();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Refused, Some("BAD_CALL")));
        assert!(error.message.contains(complaint), "{error}");
    }
}
