//! A sender whose lanes keep endpoints apart.

use std::sync::Arc;

use backstitch::delivery::limiter::{Limiter, LimiterSettings, Limits, RefusalReason, Verdict};
use backstitch::kernel::delivery::Outcome;
use tokio::sync::Semaphore;

use crate::webhook_sender::stage::{request, sender};
use backstitch_testkit::service::{Reply, Service, nobody};

const SLOW: i64 = 1;
const QUICK: i64 = 2;

#[tokio::test]
async fn an_endpoint_that_hangs_holds_no_more_than_its_places_and_the_others_go_on() {
    let gate = Arc::new(Semaphore::new(0));
    let gated = gate.clone();
    let slow = Service::always(move || Reply::Gated(gated.clone(), Box::new(Reply::http(200, "")))).await;
    let quick = Service::always(|| Reply::http(200, "")).await;
    let (sender, lanes) = (Arc::new(sender()), Limiter::new(Settings { places: 8, ..Settings::default() }));
    let limits = Limits { concurrency: 3, rate: None };
    let mut hanging = Vec::new();
    while let Ok(place) = lanes.acquire(&SLOW, &limits) {
        let (sender, request) = (sender.clone(), request(&slow.url()));
        hanging.push(tokio::spawn(async move {
            let exchange = sender.send(request).await;
            place.leave(exchange.verdict(), exchange.quiet_for());
            exchange.outcome
        }));
    }
    for _ in 0..50 {
        let place = lanes.acquire(&QUICK, &limits).ok().unwrap();
        let exchange = sender.send(request(&quick.url())).await;
        assert_eq!(exchange.outcome, Outcome::Arrived);
        place.leave(exchange.verdict(), None);
    }
    gate.add_permits(hanging.len());
    assert_eq!(hanging.len(), 3);
    for hung in hanging {
        assert_eq!(hung.await.unwrap(), Outcome::Arrived);
    }
    assert!(slow.busiest() <= 3);
}

#[tokio::test]
async fn an_endpoint_where_nobody_is_costs_a_few_attempts_and_is_then_left_alone() {
    let (url, sender) = (nobody().await, sender());
    let lanes = Limiter::new(Settings { failures_in_a_row: 4, ..Settings::default() });
    let mut attempts = 0;
    let wait = loop {
        match lanes.acquire(&SLOW, &Limits::default()) {
            Err(wait) => break wait,
            Ok(place) => {
                let exchange = sender.send(request(&url)).await;
                assert_eq!(exchange.verdict(), Verdict::Failing);
                place.leave(exchange.verdict(), exchange.quiet_for());
                attempts += 1;
            }
        }
    };
    assert_eq!((attempts, wait.reason), (4, RefusalReason::BreakerOpen));
}

#[tokio::test]
async fn an_endpoint_that_says_when_to_come_again_is_left_alone_until_then() {
    let service = Service::always(|| Reply::with_headers(429, "Retry-After: 30\r\n", "")).await;
    let lanes = Limiter::new(Settings::default());
    let place = lanes.acquire(&SLOW, &Limits::default()).ok().unwrap();
    let exchange = sender().send(request(&service.url())).await;
    place.leave(exchange.verdict(), exchange.quiet_for());
    assert_eq!(
        lanes.acquire(&SLOW, &Limits::default()).err().map(|wait| wait.reason),
        Some(RefusalReason::RetryAfter)
    );
}
