//! Outside workers take deliveries like any other work.

use std::sync::Arc;

use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::inbox::Answer;
use backstitch::kernel::delivery::Status;
use backstitch::{Answered, Desk as _, Payload, StepError, Subject, secs};
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::{Counter, Nobody, QUEUE, Terms};

use crate::webhooks::stage::{BASE, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn an_outside_worker_leases_keeps_and_answers_deliveries() {
    for stage in Stage::each().await {
        let engine = &stage.engine;
        engine.open_desk(Arc::new(Counter::of(
            stage.dispatch(),
            stage.webhooks.subscriptions.clone(),
            Arc::new(Nobody),
        )));
        let queues = [QUEUE.to_owned(), "builders".to_owned()];
        stage.subscribe(&["*"], 2).await;
        let event = stage.tell("o-1").await.event;
        assert!(engine.lease_work(&queues, 10, secs(30), secs(0)).await.unwrap().is_empty());
        stage.decide().await;
        let others = ["builders".to_owned()];
        assert!(engine.lease_work(&others, 10, secs(30), secs(0)).await.unwrap().is_empty());
        let work = engine.lease_work(&queues, 10, secs(30), secs(0)).await.unwrap().pop().unwrap();
        let saga = stage.saga_of(event).await;
        assert_eq!((&work.subject, &*work.queue), (&Subject::Delivery { id: saga.id }, QUEUE));
        assert_eq!((work.attempt, &work.idempotency_key), (1, &saga.webhook_id));
        let body: serde_json::Value = work.body.decode().unwrap();
        assert_eq!(body["url"], "https://example.com/hooks");
        assert_eq!(body["headers"]["webhook-id"], saga.webhook_id);
        assert!(body["headers"]["webhook-signature"].as_str().unwrap().starts_with("v1,"), "{body}");
        assert_eq!(body["body"], r#"{"order" : "o-1"}"#, "byte by byte what was signed");

        engine.extend_lease(work.job, work.token, secs(60)).await.unwrap();
        let stale = engine.extend_lease(work.job, work.token + 1, secs(60)).await.unwrap_err();
        assert!(matches!(stale, backstitch::Error::StaleLease(_)), "{stale}");
        let error = StepError::not_done("no route to host").with_code("unreachable");
        assert_eq!(engine.fail_work(work.job, work.token, error.clone()).await.unwrap(), Answered::Now);
        assert_eq!(engine.fail_work(work.job, work.token, error).await.unwrap(), Answered::Before);
        stage.decide().await;
        let saga = stage.saga(saga.id).await;
        assert_eq!(
            (saga.status, saga.final_error_code.as_deref()),
            (Status::PendingRetry, Some("unreachable"))
        );

        stage.advance(BASE).await;
        stage.decide().await;
        let work = engine.lease_work(&queues, 10, secs(30), secs(0)).await.unwrap().pop().unwrap();
        assert_eq!(work.attempt, 2);
        let done = Payload::parse(r#"{"status":204}"#).unwrap();
        assert_eq!(engine.complete_work(work.job, work.token, done).await.unwrap(), Answered::Now);
        stage.decide().await;
        assert_eq!(stage.saga(saga.id).await.status, Status::Completed);
        let nobody = engine.complete_work(999, 1, Payload::null()).await.unwrap_err();
        assert!(matches!(nobody, backstitch::Error::NoSuchJob(999)), "{nobody}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_workers_get_no_more_at_once_than_the_endpoint_may_have() {
    let stage = Stage::sqlite().await;
    let engine = &stage.engine;
    engine.open_desk(Arc::new(Counter::of(
        stage.dispatch(),
        stage.webhooks.subscriptions.clone(),
        Arc::new(Nobody),
    )));
    let terms = Terms { max_concurrency: 2, ..Terms::to("https://example.com/hooks", vec!["*".to_owned()]) };
    stage.registrar_to(Egress::default()).create(&terms, &[], None).await.unwrap();
    for number in 0..4 {
        stage.tell(&format!("o-{number}")).await;
    }
    stage.decide().await;
    let queues = [QUEUE.to_owned()];
    let lease = || engine.lease_work(&queues, 10, secs(30), secs(0));
    let first = lease().await.unwrap();
    assert_eq!((first.len(), lease().await.unwrap().len()), (2, 0));
    engine.complete_work(first[0].job, first[0].token, Payload::null()).await.unwrap();
    let third = lease().await.unwrap();
    assert_eq!(third.len(), 1, "its place is free again");
    stage.advance(secs(31)).await;
    assert_eq!(lease().await.unwrap().len(), 2, "who never came back holds no place");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_place_is_told_when_a_worker_gives_it_back() {
    for stage in Stage::each().await {
        let counter = Counter::of(stage.dispatch(), stage.webhooks.subscriptions.clone(), Arc::new(Nobody));
        stage.subscribe(&["*"], 8).await;
        stage.tell("o-1").await;
        stage.decide().await;
        let work = counter.lease(&[QUEUE], 1, secs(30)).await.unwrap();
        // What was offered before is no news.
        while tokio::time::timeout(secs(0), stage.webhooks.jobs.offered()).await.is_ok() {}
        let done = Answer::Succeeded("null".to_owned());
        counter.answer(work[0].job, work[0].token, &done).await.unwrap();
        tokio::time::timeout(secs(30), stage.webhooks.jobs.offered()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_free_again_whoever_hears_the_answer_and_when_nobody_does() {
    for stage in Stage::each().await {
        let limiter = Limiter::new(LimiterSettings::default());
        let dispatch = stage.dispatch_within(limiter.clone());
        let [here, there] = [dispatch.clone(), dispatch].map(|dispatch| {
            Arc::new(Counter::of(dispatch, stage.webhooks.subscriptions.clone(), Arc::new(Nobody)))
        });
        stage.subscribe(&["*"], 8).await;
        for number in 0..2 {
            stage.tell(&format!("o-{number}")).await;
        }
        stage.decide().await;
        let all = limiter.free();
        let work = here.lease(&[QUEUE], 2, secs(30)).await.unwrap();
        assert_eq!(limiter.free(), all - 2);
        here.free_places().await.unwrap();
        assert_eq!(limiter.free(), all - 2, "who has a lease has a place");
        let done = Answer::Succeeded("null".to_owned());
        there.answer(work[0].job, work[0].token, &done).await.unwrap();
        here.free_places().await.unwrap();
        assert_eq!(limiter.free(), all - 1, "another node has heard of it");
        stage.advance(secs(60)).await;
        here.free_places().await.unwrap();
        assert_eq!(limiter.free(), all, "nobody comes back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_outside_worker_was_answered_is_judged_as_if_it_had_been_sent_from_here() {
    let stage = Stage::sqlite().await;
    let limiter = Limiter::new(LimiterSettings { failures_in_a_row: 2, ..LimiterSettings::default() });
    let dispatch = stage.dispatch_within(limiter.clone());
    let counter = Counter::of(dispatch, stage.webhooks.subscriptions.clone(), Arc::new(Nobody));
    let subscription = stage.subscribe(&["*"], 8).await;
    for number in 0..4 {
        stage.tell(&format!("o-{number}")).await;
    }
    stage.decide().await;
    let work = counter.lease(&[QUEUE], 4, secs(1)).await.unwrap();
    let body: serde_json::Value = work[0].body.decode().unwrap();
    assert_eq!(body["timeout_seconds"], 15.0);
    assert!(work[0].lease_until > stage.now().plus(secs(15)), "the lease outlives the request");
    let fail = async |nth: usize, code: &str| {
        let error = StepError::not_done("x".repeat(9000)).with_code(code);
        counter.answer(work[nth].job, work[nth].token, &Answer::Failed(error)).await.unwrap();
    };
    for nth in 0..2 {
        fail(nth, "http_422").await;
    }
    assert_eq!(limiter.refusal(&subscription.id), None, "it refuses these events, and does its work");
    fail(2, "http_410").await;
    assert!(stage.webhooks.subscriptions.get(subscription.id).await.unwrap().disabled.is_some());
    stage.decide().await;
    let Subject::Delivery { id } = work[2].subject else { panic!("{:?}", work[2].subject) };
    let attempt = stage.webhooks.deliveries.attempts(id).await.unwrap().remove(0);
    assert_eq!((attempt.response_code, attempt.error.unwrap().len()), (Some(410), 500));
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_many_endpoints_that_hang_one_that_works_gets_all_it_may_have() {
    for stage in Stage::each().await {
        let limiter = Limiter::new(LimiterSettings { places: 32, ..LimiterSettings::default() });
        let counter = Counter::of(
            stage.dispatch_within(limiter.clone()),
            stage.webhooks.subscriptions.clone(),
            Arc::new(Nobody),
        );
        let works = stage.subscribe(&["*"], 8).await;
        stage.tell("o-0").await;
        stage.decide().await;
        let work = counter.lease(&[QUEUE], 1, secs(30)).await.unwrap().remove(0);
        let done = Answer::Succeeded("null".to_owned());
        counter.answer(work.job, work.token, &done).await.unwrap();
        stage.decide().await;
        for _ in 0..40 {
            stage.subscribe(&["*"], 8).await;
        }
        for number in 1..=8 {
            stage.tell(&format!("o-{number}")).await;
        }
        stage.decide().await;
        let mut leased = Vec::new();
        for _ in 0..2 {
            leased.extend(counter.lease(&[QUEUE], 100, secs(30)).await.unwrap());
        }
        let mut of_the_one = 0;
        for work in &leased {
            let Subject::Delivery { id } = work.subject else { panic!("{:?}", work.subject) };
            of_the_one += usize::from(stage.saga(id).await.subscription_id == works.id);
        }
        assert_eq!((leased.len(), of_the_one), (32, 8), "the others have the rest, and no more of it");
        assert!(limiter.is_healthy(&works.id));
    }
}
