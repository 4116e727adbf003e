//! A sender whose limiter keep endpoints apart.

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
    let (sender, limiter) =
        (Arc::new(sender()), Limiter::new(LimiterSettings { places: 8, ..LimiterSettings::default() }));
    let limits = Limits { concurrency: 3, rate: None };
    let mut hanging = Vec::new();
    while let Ok(permit) = limiter.acquire(&SLOW, &limits) {
        let (sender, request) = (sender.clone(), request(&slow.url()));
        hanging.push(tokio::spawn(async move {
            let exchange = sender.send(request).await;
            permit.release(exchange.verdict(), exchange.quiet_for());
            exchange.outcome
        }));
    }
    for _ in 0..50 {
        let permit = limiter.acquire(&QUICK, &limits).ok().unwrap();
        let exchange = sender.send(request(&quick.url())).await;
        assert_eq!(exchange.outcome, Outcome::Arrived);
        permit.release(exchange.verdict(), None);
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
    let limiter = Limiter::new(LimiterSettings { failures_in_a_row: 4, ..LimiterSettings::default() });
    let mut attempts = 0;
    let wait = loop {
        match limiter.acquire(&SLOW, &Limits::default()) {
            Err(wait) => break wait,
            Ok(permit) => {
                let exchange = sender.send(request(&url)).await;
                assert_eq!(exchange.verdict(), Verdict::Failing);
                permit.release(exchange.verdict(), exchange.quiet_for());
                attempts += 1;
            }
        }
    };
    assert_eq!((attempts, wait.reason), (4, RefusalReason::BreakerOpen));
}

#[tokio::test]
async fn an_endpoint_that_says_when_to_come_again_is_left_alone_until_then() {
    let service = Service::always(|| Reply::with_headers(429, "Retry-After: 30\r\n", "")).await;
    let limiter = Limiter::new(LimiterSettings::default());
    let permit = limiter.acquire(&SLOW, &Limits::default()).ok().unwrap();
    let exchange = sender().send(request(&service.url())).await;
    permit.release(exchange.verdict(), exchange.quiet_for());
    assert_eq!(
        limiter.acquire(&SLOW, &Limits::default()).err().map(|wait| wait.reason),
        Some(RefusalReason::RetryAfter)
    );
}
