//! How many calls a host gets at once, and over how many connections.

use std::sync::Arc;

use backstitch::{ErrorKind, StepStatus};
use backstitch_modules::http_call::Limits;
use tokio::sync::Semaphore;

use crate::service::{Reply, Service};
use crate::stage::{Stage, once, one_step};

fn gated(gate: &Arc<Semaphore>) -> impl Fn() -> Reply + Send + Sync + 'static + use<> {
    let gate = gate.clone();
    move || Reply::Gated(gate.clone(), Box::new(Reply::http(200, "")))
}

#[tokio::test]
async fn a_full_host_holds_up_no_other_and_gets_no_more_than_its_limit() {
    let gate = Arc::new(Semaphore::new(0));
    let slow = Service::always(gated(&gate)).await;
    let quick = Service::always(|| Reply::http(200, "")).await;
    let stage = Stage::within(&Limits { calls_per_host: 2, ..Limits::default() }).await;
    stage.declare(&once(&slow.url()).replace("once", "slow"));
    stage.declare(&once(&quick.url()).replace("once", "quick"));

    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(stage.start("slow").await);
    }
    assert!(stage.run("quick").await.succeeded(), "while the other host is full");
    gate.add_permits(6);
    for run in waiting {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert_eq!((slow.heard().len(), slow.busiest()), (6, 2));
}

#[tokio::test]
async fn a_call_that_gets_no_room_in_time_was_not_made_and_leaves_no_doubt() {
    let gate = Arc::new(Semaphore::new(0));
    let service = Service::always(gated(&gate)).await;
    let stage = Stage::within(&Limits { calls_per_host: 1, ..Limits::default() }).await;
    let undo = format!("compensate: {{http: {{url: '{}'}}}}, retry: 0, timeout: 1s", service.url());
    stage.declare(&one_step(&service.url(), &undo).replace("once", "hurried"));
    stage.declare(&once(&service.url()).replace("once", "patient"));

    let first = stage.start("patient").await;
    // It has its place once the service has heard of it.
    while service.heard().is_empty() {
        tokio::task::yield_now().await;
    }
    let ended = stage.run("hurried").await;
    let error = ended.error.unwrap();
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Failed, Some("NO_ROOM")), "{error}");
    assert_eq!(ended.steps[0].status, StepStatus::Failed, "nothing to undo");
    gate.add_permits(1);
    assert!(first.outcome().await.unwrap().succeeded());
    assert_eq!(service.heard().len(), 1, "the hurried one never called");
}

#[tokio::test]
async fn connections_are_used_again() {
    let service = Service::always(|| Reply::http(200, "{}")).await;
    let stage = Stage::new().await;
    stage.declare(&once(&service.url()));
    for _ in 0..20 {
        assert!(stage.run("once").await.succeeded());
    }
    assert_eq!(service.heard().len(), 20);
    // One would do; another is made when the first is on its way back.
    assert!(service.connections() < 10, "{} connections", service.connections());
}

#[tokio::test]
async fn a_service_that_closes_its_connection_after_each_answer_loses_nothing() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let service = Service::always(move || Reply::Last(answer.into())).await;
    let stage = Stage::new().await;
    stage.declare(&once(&service.url()));
    for _ in 0..20 {
        assert!(stage.run("once").await.succeeded());
    }
    assert_eq!(service.connections(), 20);
}
