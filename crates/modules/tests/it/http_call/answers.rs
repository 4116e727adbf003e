//! What answers mean: the table of the documentation, row by row.

use backstitch::{ErrorKind, Status, StepStatus, secs};
use backstitch_modules::http_call::Limits;
use serde_json::{Value, json};

use crate::http_call::stage::{Stage, error, one_step, outcome};
use backstitch_testkit::service::{Reply, Service};

#[tokio::test]
async fn a_success_gives_its_body_as_the_result() {
    for (status, body, result) in [
        (200, r#"{"id": 7}"#, json!({"id": 7})),
        (201, "\"done\"", json!("done")),
        (202, "", Value::Null),
        (204, "", Value::Null),
        (299, " [1, 2] \n", json!([1, 2])),
    ] {
        let service = Service::always(move || Reply::http(status, body)).await;
        let ended = outcome(&service.url()).await;
        assert_eq!(ended.status, Status::Succeeded, "{status} {body}");
        assert_eq!(ended.result::<Value>("call").unwrap(), result);
    }
}

#[tokio::test]
async fn a_no_is_permanent_and_undoes_nothing() {
    for status in [400, 401, 403, 404, 409, 410, 418, 422] {
        let service = Service::always(move || Reply::http(status, r#"{"code": "NO_STOCK"}"#)).await;
        let stage = Stage::new().await;
        let undo =
            format!("compensate: {{http: {{url: '{}'}}}}, retry: {{count: 3, delay: 1ms}}", service.url());
        stage.declare(&one_step(&service.url(), &undo));
        let ended = stage.run("once").await;
        let error = ended.error.unwrap();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Refused, Some("NO_STOCK")), "{status}");
        assert_eq!(ended.steps[0].status, StepStatus::Failed);
        assert_eq!(service.heard().len(), 1, "{status}: neither tried again nor undone");
    }
}

#[tokio::test]
async fn a_service_that_is_busy_has_not_done_it_and_is_asked_again() {
    for status in [425, 429, 503] {
        let service = Service::scripted(move |nth, _| match nth {
            1 | 2 => Reply::http(status, "busy"),
            _ => Reply::http(200, "7"),
        })
        .await;
        let stage = Stage::new().await;
        stage.declare(&one_step(&service.url(), "retry: {count: 2, delay: 1ms}"));
        assert_eq!(stage.run("once").await.status, Status::Succeeded, "{status}");
        assert_eq!(service.heard().len(), 3);

        let service = Service::always(move || Reply::http(status, "")).await;
        assert_eq!(error(&service.url()).await.kind, ErrorKind::Failed, "{status} leaves no doubt");
    }
}

#[tokio::test]
async fn an_answer_that_tells_nothing_leaves_the_step_in_doubt_and_is_asked_again_and_undone() {
    for status in [408, 500, 501, 502, 504, 599] {
        let service = Service::scripted(move |_, heard| match heard.json()["phase"].as_str() {
            Some("undo") => Reply::http(200, ""),
            _ => Reply::http(status, "oh"),
        })
        .await;
        let stage = Stage::new().await;
        let more =
            format!("compensate: {{http: {{url: '{}'}}}}, retry: {{count: 1, delay: 1ms}}", service.url());
        stage.declare(&one_step(&service.url(), &more));
        let ended = stage.run("once").await;
        assert_eq!(ended.error.unwrap().kind, ErrorKind::InDoubt, "{status}");
        assert_eq!((ended.status, ended.steps[0].status), (Status::Compensated, StepStatus::Compensated));
        assert_eq!(service.heard().len(), 3, "{status}: twice done, once undone");
    }
}

#[tokio::test]
async fn complete_success_without_json_succeeds() {
    for body in ["<html>", "{\"id\":", "1 2", "OK\n"] {
        let service = Service::always(move || Reply::http(200, body)).await;
        let ended = outcome(&service.url()).await;
        assert_eq!((ended.status, service.heard().len()), (Status::Succeeded, 1), "{body}");
        assert_eq!(ended.result::<String>("call").unwrap(), body);
        assert!(ended.steps[0].result.as_ref().unwrap().is_unparsed(), "{body}");
    }
    let binary = || Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe".to_vec());
    let service = Service::always(binary).await;
    let ended = outcome(&service.url()).await;
    assert_eq!(ended.status, Status::Succeeded);
    let result = ended.steps[0].result.as_ref().unwrap();
    assert_eq!((result.as_str(), result.is_unparsed()), ("null", true));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_in_doubt() {
    for status in [301, 302, 303, 307, 308] {
        let service = Service::always(move || Reply::with_headers(status, "Location: /other\r\n", "")).await;
        let error = error(&service.url()).await;
        assert_eq!(error.kind, ErrorKind::InDoubt, "{status}");
        assert!(error.message.contains("redirects are not followed"), "{error}");
        assert_eq!(service.heard().len(), 1);
    }
}

#[tokio::test]
async fn a_conflict_is_a_no_unless_an_earlier_attempt_is_in_doubt() {
    let service = Service::scripted(|nth, _| match nth {
        1 => Reply::Last(Vec::new()),
        2 => Reply::http(409, "still working on it"),
        _ => Reply::http(200, "7"),
    })
    .await;
    let stage = Stage::new().await;
    stage.declare(&one_step(&service.url(), "retry: {count: 2, delay: 1ms}"));
    assert_eq!(stage.run("once").await.status, Status::Succeeded);
    assert_eq!(service.heard().len(), 3);
}

#[tokio::test]
async fn a_compensation_is_tried_again_whatever_the_answer() {
    let service = Service::scripted(|nth, _| match nth {
        1 => Reply::http(200, "{\"charge\": 9}"),
        2 => Reply::http(422, ""),
        3 => Reply::http(409, "not now"),
        4 => Reply::http(500, ""),
        5 => Reply::http(503, ""),
        _ => Reply::http(204, ""),
    })
    .await;
    let no = Service::always(|| Reply::http(402, "no money")).await;
    let stage = Stage::new().await;
    stage.declare(&format!(
        "{{name: two, steps: [
            {{id: a, action: {{http: {{url: '{0}'}}}}, compensate: {{http: {{url: '{0}'}}, retry: {{count: 5, delay: 1ms}}}}}},
            {{id: b, action: {{http: {{url: '{1}'}}}}}}]}}",
        service.url(),
        no.url()
    ));
    let ended = stage.run("two").await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.steps[0].compensation_attempts, 5);
    let undo = service.heard()[1].json();
    assert_eq!((&undo["phase"], &undo["result"]), (&json!("undo"), &json!({"charge": 9})));
    assert_eq!(undo["error"]["message"], "HTTP 402: no money");
}

#[tokio::test]
async fn a_service_says_when_to_come_again() {
    use backstitch::Event;
    use futures::StreamExt;

    for (header, honoured) in [("Retry-After: 120\r\n", 120), ("Retry-After: 3600\r\n", 300)] {
        let service = Service::always(move || Reply::with_headers(429, header, "")).await;
        let stage = Stage::new().await;
        stage.declare(&one_step(&service.url(), "retry: {count: 1, delay: 1ms}"));
        let run = stage.start("once").await;
        let mut events = Box::pin(run.events());
        let (retry, told) = loop {
            let recorded = events.next().await.unwrap().unwrap();
            if let Event::StepRetry { retry_at, error, .. } = recorded.event {
                break (retry_at.since(recorded.at), error.retry_after);
            }
        };
        assert_eq!(retry, secs(honoured), "and not after the millisecond of the policy");
        assert_eq!(told, Some(secs(honoured)), "{header}");
    }
}

#[tokio::test]
async fn a_giant_answer_is_not_read_to_its_end() {
    let announced = || Reply::Stall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n\"aaa".to_vec());
    let unannounced = || {
        let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000)).repeat(20);
        Reply::Stall(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}").into_bytes())
    };
    for service in [Service::always(announced).await, Service::always(unannounced).await] {
        let error = error(&service.url()).await;
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::InDoubt, Some("ANSWER_TOO_LARGE")));
    }
}

#[tokio::test]
async fn an_answer_may_be_as_long_as_the_limit_and_no_longer() {
    let limits = Limits { answer_bytes: 6, ..Limits::default() };
    for (body, status) in [("\"1234\"", Status::Succeeded), ("\"12345\"", Status::Compensated)] {
        let service = Service::always(move || Reply::http(200, body)).await;
        let stage = Stage::within(&limits).await;
        stage.declare(&crate::http_call::stage::once(&service.url()));
        assert_eq!(stage.run("once").await.status, status, "{body}");
    }
}

#[tokio::test]
async fn compressed_success_succeeds_without_a_result() {
    let bomb = || Reply::with_headers(200, "Content-Encoding: gzip\r\n", "\u{1f}not really a bomb");
    let service = Service::always(bomb).await;
    let ended = outcome(&service.url()).await;
    assert_eq!(ended.status, Status::Succeeded);
    let result = ended.steps[0].result.as_ref().unwrap();
    assert_eq!((result.as_str(), result.is_unparsed()), ("null", true));
    let heard = &service.heard()[0];
    assert!(!heard.headers.contains_key("accept-encoding"), "nobody asked for it: {heard:?}");
}

#[tokio::test]
async fn truncated_compressed_success_is_in_doubt() {
    let cut = || {
        Reply::Last(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n\x1f".to_vec())
    };
    let service = Service::always(cut).await;
    let error = error(&service.url()).await;
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::InDoubt, Some("ANSWER_CUT_OFF")));
}
