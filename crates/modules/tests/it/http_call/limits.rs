//! How many calls a host gets at once, and over how many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch::{Status, StepStatus};
use backstitch_modules::http_call::Limits;
use tokio::sync::Semaphore;

use crate::http_call::stage::{Stage, once, one_step};
use backstitch_testkit::service::{Reply, Service};

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
async fn waiting_for_a_full_host_costs_neither_time_nor_an_attempt() {
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
    let second = stage.start("hurried").await;
    let waits_for_long = || {
        let now = stage.engine().clock().now();
        stage.engine().full_limits().iter().any(|full| now.since(full.since) > Duration::from_secs(1))
    };
    while !waits_for_long() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let waiting = stage.engine().load(second.id()).await.unwrap().unwrap();
    assert_eq!((waiting.steps[0].status, waiting.steps[0].attempts), (StepStatus::Pending, 0));
    let full = &stage.engine().full_limits()[0];
    let host = service.url().replace("http://", "").replace("/call", "");
    assert_eq!((full.scope.to_string(), full.waiting), (format!("host `{host}`"), 1));
    gate.add_permits(2);
    assert!(first.outcome().await.unwrap().succeeded());
    assert!(second.outcome().await.unwrap().succeeded(), "longer than its time after it was started");
    assert_eq!(service.heard().len(), 2);
    assert_eq!(stage.engine().full_limits(), []);
}

/// A saga whose first step is done and undone at this service, and whose second one is refused.
fn undone(name: &str, service: &Service, refusing: &Service, more: &str) -> String {
    let (url, refused) = (service.url(), refusing.url());
    format!(
        "{{name: {name}, steps: [\
           {{id: a, action: {{http: {{url: '{url}'}}}}, compensate: {{http: {{url: '{url}/undo'}}, {more}}}}}, \
           {{id: b, action: {{http: {{url: '{refused}'}}}}}}]}}"
    )
}

#[tokio::test]
async fn a_host_that_is_full_of_actions_has_room_for_compensations() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gated(&gate);
    let full = Service::scripted(
        move |_, heard| {
            if heard.line.contains("/held") { held() } else { Reply::http(200, "") }
        },
    )
    .await;
    let refusing_gate = Arc::new(Semaphore::new(0));
    let refusals = refusing_gate.clone();
    let refusing =
        Service::always(move || Reply::Gated(refusals.clone(), Box::new(Reply::http(422, "")))).await;
    let stage = Stage::within(&Limits { calls_per_host: 1, ..Limits::default() }).await;
    stage.declare(&undone("undone", &full, &refusing, "timeout: 5s, retry: 0"));
    stage.declare(&once(&format!("{}/held", full.url())).replace("once", "held"));

    let undone = stage.start("undone").await;
    while refusing.heard().is_empty() {
        tokio::task::yield_now().await;
    }
    let held = stage.start("held").await;
    while !full.heard().iter().any(|heard| heard.line.contains("/held")) {
        tokio::task::yield_now().await;
    }
    refusing_gate.add_permits(1);
    assert_eq!(undone.outcome().await.unwrap().status, Status::Compensated, "while an action holds the host");
    gate.add_permits(1);
    assert!(held.outcome().await.unwrap().succeeded());
}

#[tokio::test]
async fn a_compensation_that_waits_for_room_loses_neither_its_time_nor_a_retry() {
    // The first undo is never answered and holds its place for all of its time.
    let undos = AtomicUsize::new(0);
    let service = Service::scripted(move |_, heard| {
        let first = heard.line.contains("/undo") && undos.fetch_add(1, Ordering::Relaxed) == 0;
        if first { Reply::Stall(Vec::new()) } else { Reply::http(200, "") }
    })
    .await;
    let refusing = Service::always(|| Reply::http(422, "")).await;
    let stage = Stage::within(&Limits { calls_per_host: 1, ..Limits::default() }).await;
    stage.declare(&undone("undone", &service, &refusing, "timeout: 2s, retry: 0"));

    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(stage.start("undone").await);
    }
    let mut ends = Vec::new();
    for run in runs {
        ends.push(run.outcome().await.unwrap().status);
    }
    ends.sort_by_key(|&end| end == Status::Compensated);
    let one_failed = [Status::Failed, Status::Compensated, Status::Compensated, Status::Compensated];
    assert_eq!(ends, one_failed, "only the one that was not answered");
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
