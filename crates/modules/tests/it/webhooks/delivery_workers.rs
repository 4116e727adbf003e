//! Attempts made in this process: who gets a place, what is sent, and what is kept of it.

use std::sync::Arc;
use std::time::Duration;

use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::kernel::delivery::Status;
use backstitch_modules::randomness::SystemRandomness;
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::sender::{self, Sender};
use backstitch_modules::webhooks::signature::WebhookId;
use backstitch_modules::webhooks::vault::Vault;
use backstitch_modules::webhooks::{
    DeliveryWorker, Dispatch, Error, Filter, GONE, Nobody, Registrar, Saga, Subscription, Terms,
};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::webhooks::stage::{BASE, Stage, order_created};
use backstitch_testkit::service::{Reply, Service};

/// A delivery worker at work, until it is dropped.
pub(crate) struct Working {
    delivery_worker: Arc<DeliveryWorker>,
    _running: [AbortOnDropHandle<()>; 2],
}

pub(crate) fn loopback() -> Egress {
    Egress::allowing(&["127.0.0.0/8"]).unwrap()
}

pub(crate) fn delivery_worker(stage: &Stage, dispatch: Arc<Dispatch>) -> DeliveryWorker {
    let sender = Sender::new(loopback(), sender::Settings::default(), stage.clock.clone()).unwrap();
    DeliveryWorker::new(dispatch, sender, stage.webhooks.subscriptions.clone(), Arc::new(Nobody))
}

pub(crate) fn work(stage: &Stage, dispatch: Arc<Dispatch>) -> Working {
    let delivery_worker = Arc::new(delivery_worker(stage, dispatch));
    let (running, orchestrator) = (delivery_worker.clone(), stage.webhooks.orchestrator.clone());
    let running = [
        tokio::spawn(async move { running.run(std::future::pending()).await }),
        tokio::spawn(async move { orchestrator.run(&Nobody).await }),
    ];
    Working { delivery_worker, _running: running.map(AbortOnDropHandle::new) }
}

/// Somebody on this machine who wants orders.
pub(crate) async fn subscribe(stage: &Stage, url: String, change: impl FnOnce(&mut Terms)) -> Subscription {
    let mut terms = Terms { base_delay: BASE, ..Terms::to(url, vec!["order.*".to_owned()]) };
    change(&mut terms);
    stage.registrar_to(loopback()).create(&terms, &[], None).await.unwrap().0
}

fn header(name: &str, value: &str) -> [(String, String); 1] {
    [(name.to_owned(), value.to_owned())]
}

/// Waits until the delivery of this event is at this status.
pub(crate) async fn until(stage: &Stage, event: i64, status: Status) -> Saga {
    loop {
        let saga = stage.saga_of(event).await;
        if saga.status == status {
            return saga;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_1_an_event_is_sent_reported_and_completed() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(200, "thanks")).await;
        let terms = Terms::to(service.url(), vec!["order.*".to_owned()]);
        stage.registrar_to(loopback()).create(&terms, &header("X-Tenant", "t-1"), None).await.unwrap();
        let _working = work(&stage, stage.dispatch());
        let event = stage.tell("o-1").await;
        let saga = until(&stage, event.event, Status::Completed).await;
        assert_eq!((saga.attempt_count, saga.final_error_code), (1, None));
        let heard = service.heard();
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0].body, r#"{"order" : "o-1"}"#, "byte by byte as it came");
        assert_eq!(
            (&*heard[0].headers["webhook-id"], &*heard[0].headers["x-tenant"]),
            (&*event.webhook_id, "t-1")
        );
        let attempts = stage.webhooks.deliveries.attempts(saga.id).await.unwrap();
        assert_eq!((attempts.len(), attempts[0].response_code), (1, Some(200)));
        assert_eq!(attempts[0].body.as_deref(), Some("thanks"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_whose_report_is_rejected_is_sent_once() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(200, "thanks")).await;
        subscribe(&stage, service.url(), |_| ()).await;
        stage.obstruct("webhook_attempts", "insert", "true").await;
        let working = work(&stage, stage.dispatch());
        let event = stage.tell("o-1").await.event;
        let parked = loop {
            let parked = stage.engine.store().parked(None, 10).await.unwrap();
            if !parked.is_empty() {
                break parked;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!((parked.len(), &*parked[0].area), (1, "webhook_jobs"));
        // The lease has run out, and nothing is parked any more.
        stage.advance(Duration::from_secs(3600)).await;
        stage.webhooks.jobs.expire().await.unwrap();
        drop(working);
        stage.clear("webhook_attempts").await;
        let _working = work(&stage, stage.dispatch());
        assert_eq!(stage.webhooks.jobs.settle_rejected().await.unwrap(), 1);
        until(&stage, event, Status::Completed).await;
        assert_eq!(service.heard().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_a_failure_is_kept_with_its_answer_and_tried_again_when_it_is_due() {
    for stage in Stage::each().await {
        let reply = |nth: usize| if nth == 1 { Reply::http(500, "not today") } else { Reply::http(204, "") };
        let service = Service::scripted(move |nth, _| reply(nth)).await;
        subscribe(&stage, service.url(), |_| ()).await;
        let _working = work(&stage, stage.dispatch());
        let event = stage.tell("o-1").await.event;
        let saga = until(&stage, event, Status::PendingRetry).await;
        assert_eq!((saga.attempt_count, saga.final_error_code.as_deref()), (1, Some("http_500")));
        stage.advance(BASE).await;
        let saga = until(&stage, event, Status::Completed).await;
        assert_eq!(saga.attempt_count, 2);
        let attempts = stage.webhooks.deliveries.attempts(saga.id).await.unwrap();
        assert_eq!(attempts[0].body.as_deref(), Some("not today"));
        let ids: Vec<_> = service.heard().iter().map(|heard| heard.headers["webhook-id"].clone()).collect();
        assert_eq!(ids[0], ids[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_never_got_a_connection_keeps_no_request() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(500, "")).await;
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = format!("http://{}/", nobody.local_addr().unwrap());
        drop(nobody);
        for (url, code, is_sent) in [(service.url(), "http_500", true), (closed, "connect_failed", false)] {
            let subscription = subscribe(&stage, url, |_| ()).await;
            let working = work(&stage, stage.dispatch());
            let saga = until(&stage, stage.tell(code).await.event, Status::PendingRetry).await;
            let attempt = stage.webhooks.deliveries.attempts(saga.id).await.unwrap().remove(0);
            assert_eq!(attempt.error_code.as_deref(), Some(code));
            assert_eq!(attempt.sent.map(|sent| sent.url), is_sent.then_some(subscription.terms.url));
            drop(working);
            stage.webhooks.subscriptions.delete(subscription.id).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_gone_is_disabled_and_its_events_are_kept() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(410, "")).await;
        let subscription = subscribe(&stage, service.url(), |_| ()).await;
        let _working = work(&stage, stage.dispatch());
        let event = stage.tell("o-1").await.event;
        assert_eq!(
            until(&stage, event, Status::PendingRetry).await.final_error_code.as_deref(),
            Some("http_410")
        );
        let disabled = loop {
            match stage.webhooks.subscriptions.get(subscription.id).await.unwrap().disabled {
                Some(disabled) => break disabled,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        assert_eq!(disabled.reason, GONE);
        stage.advance(BASE).await;
        until(&stage, event, Status::InProgress).await;
        assert_eq!(service.heard().len(), 1, "nobody calls it again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_whose_secret_cannot_be_read_is_left_alone_and_nothing_is_lost() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(204, "")).await;
        subscribe(&stage, service.url(), |_| ()).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        let limiter = Limiter::new(LimiterSettings::default());
        let other = Vault::new(&[8; 32]).unwrap();
        let blind = Dispatch::new(
            stage.webhooks.jobs.clone(),
            stage.membership.clone(),
            limiter,
            other,
            stage.clock.clone(),
        );
        let working = work(&stage, Arc::new(blind));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count, service.heard().len()), (Status::InProgress, 0, 0));
        drop(working);
        let _working = work(&stage, stage.dispatch());
        until(&stage, event, Status::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_servers_secret_was_changed_a_subscription_needs_its_secret_and_its_headers_anew() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(204, "")).await;
        let terms = Terms::to(service.url(), vec!["order.*".to_owned()]);
        let before = stage.registrar_to(loopback());
        let (made, _) = before.create(&terms, &header("X-Key", "old"), None).await.unwrap();
        let vault = Vault::new(&[8; 32]).unwrap();
        let limiter = Limiter::new(LimiterSettings::default());
        let dispatch = Dispatch::new(
            stage.webhooks.jobs.clone(),
            stage.membership.clone(),
            limiter,
            vault.clone(),
            stage.clock.clone(),
        );
        let dispatch = Arc::new(dispatch);
        let delivery_worker = delivery_worker(&stage, dispatch);
        let subscriptions = stage.webhooks.subscriptions.clone();
        let after = Registrar::new(subscriptions.clone(), loopback(), vault, Arc::new(SystemRandomness));
        let tried = async || {
            let id = WebhookId::new("msg_test").unwrap();
            let subscription = subscriptions.get(made.id).await.unwrap();
            delivery_worker.try_out(&subscription, id, "{}".to_owned()).await.map_err(|why| why.to_string())
        };
        assert!(tried().await.unwrap_err().contains("rotate the subscription's secret"));
        after.rotate(made.id, None, Duration::from_secs(60), false).await.unwrap();
        assert!(tried().await.unwrap_err().contains("give the subscription its headers again"));
        // Other terms can be changed meanwhile: what stands there is kept as it is.
        let now = subscriptions.get(made.id).await.unwrap();
        let terms = Terms { max_retry_limit: 3, ..terms };
        let now = after.change(&now, &terms, None).await.unwrap();
        assert_eq!((&now.headers, now.terms.max_retry_limit), (&made.headers, 3));
        after.change(&now, &terms, Some(&header("X-Key", "new"))).await.unwrap();
        assert_eq!(tried().await.unwrap().status, Some(204));
        assert_eq!(service.heard()[0].headers["x-key"], "new");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_few_places_every_endpoint_has_its_turn() {
    let stage = Stage::sqlite().await;
    let service = Service::always(|| Reply::http(204, "")).await;
    for _ in 0..7 {
        subscribe(&stage, service.url(), |_| ()).await;
    }
    for number in 0..5 {
        assert_eq!(stage.tell(&format!("o-{number}")).await.deliveries, 7);
    }
    let limiter = Limiter::new(LimiterSettings { places: 2, ..LimiterSettings::default() });
    let _working = work(&stage, stage.dispatch_within(limiter));
    while service.heard().len() < 35 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(service.busiest() <= 2, "{}", service.busiest());
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_get_nothing_take_nothing_from_one_that_is_well() {
    let stage = Stage::sqlite().await;
    let [hanging, well] = [Semaphore::new(0), Semaphore::new(0)].map(Arc::new);
    let hang = Service::always(move || Reply::Gated(hanging.clone(), Box::new(Reply::http(204, "")))).await;
    let gate = well.clone();
    let service = Service::always(move || Reply::Gated(gate.clone(), Box::new(Reply::http(204, "")))).await;
    for _ in 0..40 {
        subscribe(&stage, hang.url(), |terms| terms.max_concurrency = 1).await;
    }
    let events = (0..20).map(|number| order_created(&format!("o-{number}"))).collect();
    let limiter = Limiter::new(LimiterSettings::default());
    let _working = work(&stage, stage.dispatch_within(limiter.clone()));
    stage.webhooks.ingest.accept_all(events).await;
    while limiter.free() > LimiterSettings::default().places - 40 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    subscribe(&stage, service.url(), |terms| terms.max_concurrency = 30).await;
    let events = (20..50).map(|number| order_created(&format!("o-{number}"))).collect();
    stage.webhooks.ingest.accept_all(events).await;
    // All of them at once, though forty others wait who cannot be called.
    while service.busiest() < 30 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    well.add_permits(30);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_when_it_is_stopped_is_reported_first() {
    let stage = Stage::sqlite().await;
    let gate = Arc::new(Semaphore::new(0));
    let gated = gate.clone();
    let service = Service::always(move || Reply::Gated(gated.clone(), Box::new(Reply::http(204, "")))).await;
    subscribe(&stage, service.url(), |_| ()).await;
    let event = stage.tell("o-1").await.event;
    stage.decide().await;
    let delivery_worker = delivery_worker(&stage, stage.dispatch());
    let heard = async {
        while service.heard().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gate.add_permits(1);
    };
    delivery_worker.run(heard).await;
    stage.decide().await;
    assert_eq!(stage.saga_of(event).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_can_be_tried_out_and_nothing_of_it_is_kept() {
    let stage = Stage::sqlite().await;
    let service = Service::always(|| Reply::http(418, "short and stout")).await;
    let subscription = subscribe(&stage, service.url(), |_| ()).await;
    let working = work(&stage, stage.dispatch());
    let id = WebhookId::new("msg_test").unwrap();
    let exchange = working.delivery_worker.try_out(&subscription, id.clone(), "{}".to_owned()).await.unwrap();
    assert_eq!((exchange.status, &*exchange.body_start), (Some(418), "short and stout"));
    assert_eq!(service.heard()[0].headers["webhook-id"], "msg_test");
    let kept = stage.webhooks.deliveries.list(&Filter::default(), 1, None).await.unwrap();
    assert!(kept.items.is_empty());
    let foreign = Subscription { id: subscription.id + 1, ..subscription };
    let refused = working.delivery_worker.try_out(&foreign, id, "{}".to_owned()).await.unwrap_err();
    assert!(matches!(refused, Error::Secret(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_very_many_endpoints_that_rest_the_others_go_on_and_new_ones_are_seen() {
    for stage in Stage::each().await {
        let service = Service::always(|| Reply::http(204, "")).await;
        let nobody = Service::always(|| Reply::http(500, "")).await;
        let limiter = Limiter::new(LimiterSettings {
            failures_in_a_row: 1,
            first_pause: Duration::from_secs(600),
            longest_pause: Duration::from_secs(600),
            ..LimiterSettings::default()
        });
        let working = subscribe(&stage, service.url(), |_| {}).await;
        for _ in 0..80 {
            subscribe(&stage, nobody.url(), |terms| terms.max_concurrency = 1).await;
        }
        let _working = work(&stage, stage.dispatch_within(limiter.clone()));
        let mut told = vec![stage.tell("o-0").await.event, stage.tell("o-1").await.event];
        while nobody.heard().len() < 80 || service.heard().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Each of the eighty has something that waits, and none of them gives it.
        for number in 2..50 {
            told.push(stage.tell(&format!("o-{number}")).await.event);
        }
        let anew = subscribe(&stage, service.url(), |_| {}).await;
        told.push(stage.tell("o-50").await.event);
        while service.heard().len() < told.len() + 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.webhooks.subscriptions.disable(working.id, "no more").await.unwrap();
        stage.tell("o-51").await;
        while service.heard().len() < told.len() + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(limiter.is_healthy(&working.id) && limiter.is_healthy(&anew.id));
        assert_eq!(nobody.heard().len(), 80, "those that rest are left alone");
    }
}
