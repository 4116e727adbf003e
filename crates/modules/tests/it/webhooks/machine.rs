//! Where a delivery stands, and what leads from there: §3, §4, §5, §6 and §8.

use std::time::Duration;

use backstitch::kernel::delivery::Status;
use backstitch_modules::webhooks::{Answered, Report, Sealed, Terms, Won};

use crate::webhooks::stage::{BASE, Stage, failure};

#[tokio::test(flavor = "multi_thread")]
async fn s3_s4_1_s8_2_a_delivery_goes_from_pending_through_its_first_job_to_completed() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count, saga.job_id), (Status::Pending, 0, None));
        assert_eq!(saga.next_attempt_at, stage.now());

        assert_eq!(stage.decide().await.begun, 1);
        let saga = stage.saga(saga.id).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::InProgress, 0));
        let leased = stage.lease_one().await;
        assert_eq!((Some(leased.job), leased.delivery, leased.attempt), (saga.job_id, saga.id, 1));
        assert_eq!(leased.payload, r#"{"order" : "o-1"}"#, "exactly as it was given");
        assert_eq!(leased.webhook_id, saga.webhook_id);

        assert_eq!(stage.arrived(&leased).await, Answered::Now);
        assert_eq!(stage.saga(saga.id).await.status, Status::InProgress, "a report alone changes no status");
        let progress = stage.decide().await;
        assert_eq!((progress.applied, progress.completed), (1, 1));
        let saga = stage.saga(saga.id).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::Completed, 1));
        assert_eq!(saga.final_error_code, None);
        assert!(stage.lease().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_3_s6_1_s7_3_a_failed_delivery_gets_no_job_before_its_time_and_a_new_one_then() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        let first = stage.lease_one().await;
        stage.failed(&first, "http_500").await;
        stage.decide().await;
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::PendingRetry, 1));
        assert_eq!(saga.final_error_code.as_deref(), Some("http_500"));
        assert_eq!(saga.next_attempt_at, stage.now().plus(BASE));

        stage.advance(BASE.saturating_sub(Duration::from_micros(1))).await;
        assert_eq!(stage.decide().await.begun, 0, "not before its time");
        assert_eq!(stage.webhooks.orchestrator.next_due().await.unwrap(), Some(saga.next_attempt_at));
        stage.advance(Duration::from_micros(1)).await;
        assert_eq!(stage.decide().await.begun, 1);
        let second = stage.lease_one().await;
        assert_ne!(second.job, first.job, "a job is never used again");
        assert_eq!((second.delivery, second.attempt, second.token), (first.delivery, 2, 1));
        assert_eq!((second.webhook_id, second.payload), (first.webhook_id, first.payload));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_2_waits_double_from_the_base_delay_up_to_the_longest_and_a_receiver_may_ask_for_more() {
    for stage in Stage::each().await {
        let terms = Terms {
            base_delay: BASE,
            max_delay: Duration::from_secs(12),
            ..Terms::to("https://example.com", vec!["*".to_owned()])
        };
        stage.webhooks.subscriptions.create(&terms, |_| Ok(Sealed::default())).await.unwrap();
        let event = stage.tell("o-1").await.event;
        for (asked, wait) in [(None, 5), (None, 10), (None, 12), (Some(1), 12), (Some(99), 12)] {
            stage.decide().await;
            let leased = stage.lease_one().await;
            let retry_after = asked.map(Duration::from_secs);
            stage.webhooks.jobs.report(Report { retry_after, ..failure(&leased, "http_429") }).await.unwrap();
            stage.decide().await;
            let saga = stage.saga_of(event).await;
            assert_eq!(saga.next_attempt_at, stage.now().plus(Duration::from_secs(wait)));
            stage.advance(Duration::from_secs(wait)).await;
        }
        // Less than the longest wait and more than the formula's is granted as asked.
        let other = stage.tell("o-2").await.event;
        stage.decide().await;
        for leased in stage.lease().await {
            let retry_after = Some(Duration::from_secs(7));
            stage.webhooks.jobs.report(Report { retry_after, ..failure(&leased, "http_429") }).await.unwrap();
        }
        stage.decide().await;
        assert_eq!(stage.saga_of(other).await.next_attempt_at, stage.now().plus(Duration::from_secs(7)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_3_s8_1_the_failure_that_reaches_the_subscriptions_own_limit_dead_letters_with_its_entry() {
    for stage in Stage::each().await {
        let [patient, strict] =
            [stage.subscribe(&["order.*"], 3).await, stage.subscribe(&["order.created"], 1).await];
        stage.tell("o-1").await;
        stage.decide().await;
        for leased in stage.lease().await {
            stage.failed(&leased, "timeout").await;
        }
        let progress = stage.decide().await;
        assert_eq!((progress.applied, progress.dead_lettered), (2, 1));
        let filter = |subscription: i64| backstitch_modules::webhooks::Filter {
            subscription_id: Some(subscription),
            ..Default::default()
        };
        let [kept, dead] = [patient.id, strict.id].map(filter);
        let kept = stage.webhooks.deliveries.list(&kept, 10, None).await.unwrap().items.remove(0);
        let dead = stage.webhooks.deliveries.list(&dead, 10, None).await.unwrap().items.remove(0);
        assert_eq!((kept.status, kept.attempt_count), (Status::PendingRetry, 1));
        assert_eq!((dead.status, dead.attempt_count), (Status::DeadLettered, 1));
        assert_eq!(dead.final_error_code.as_deref(), Some("timeout"));
        let letter = stage.webhooks.dead_letters.get(dead.id).await.unwrap();
        assert_eq!((letter.event_id, letter.subscription_id), (dead.event_id, dead.subscription_id));
        assert_eq!((letter.attempt_count, letter.final_error_code), (1, dead.final_error_code));
        assert_eq!((letter.webhook_id, letter.created_at), (dead.webhook_id, dead.updated_at));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_1_s7_3_a_limit_that_was_lowered_to_the_count_dead_letters_instead_of_making_a_job() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        stage.failed(&stage.lease_one().await, "http_500").await;
        stage.decide().await;
        let terms = Terms { max_retry_limit: 1, ..subscription.terms.clone() };
        stage.webhooks.subscriptions.change(&subscription, &terms, &subscription.headers).await.unwrap();
        stage.advance(BASE).await;
        let progress = stage.decide().await;
        assert_eq!((progress.begun, progress.dead_lettered), (0, 1));
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::DeadLettered, 1));
        assert_eq!(stage.number("select count(*) from jobs").await, 1);
        stage.webhooks.dead_letters.get(saga.id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_3_s6_4_a_result_that_is_told_or_consumed_twice_counts_once() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        let leased = stage.lease_one().await;
        // Twice at once, in any order, and once more later.
        let codes = ["http_500", "http_501"];
        let [first, second] = codes.map(|code| stage.webhooks.jobs.report(failure(&leased, code)));
        let (first, second) = tokio::join!(first, second);
        let answers = [first.unwrap(), second.unwrap()];
        let winner = answers.iter().position(|answer| *answer == Answered::Now).unwrap();
        let won = Won::Failed(codes[winner].to_owned());
        assert_eq!(answers[1 - winner], Answered::Before(won.clone()));
        stage.decide().await;
        let once = stage.saga_of(event).await;
        assert_eq!(once.attempt_count, 1);
        assert_eq!(stage.arrived(&leased).await, Answered::Before(won), "what won stays");
        assert_eq!(stage.decide().await.applied, 0);
        // A result that comes into the inbox again, as after a restore, changes nothing and is gone.
        let again = format!(
            "insert into job_results (job_id, delivery_id, at, error_code) select {}, id, created_at, 'late' from webhook_delivery_sagas",
            leased.job
        );
        for _ in 0..2 {
            stage.execute(&again).await.unwrap();
            let progress = stage.decide().await;
            assert_eq!((progress.applied, progress.ignored), (0, 1));
        }
        assert_eq!(stage.saga_of(event).await, once);
        assert_eq!(stage.number("select count(*) from job_results").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_2_a_success_after_failures_counts_and_clears_the_error_code() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        stage.failed(&stage.lease_one().await, "http_500").await;
        stage.decide().await;
        stage.advance(BASE).await;
        stage.decide().await;
        stage.arrived(&stage.lease_one().await).await;
        stage.decide().await;
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::Completed, 2));
        assert_eq!(saga.final_error_code, None);
        let attempts = stage.webhooks.deliveries.attempts(saga.id).await.unwrap();
        let seen: Vec<_> =
            attempts.iter().map(|it| (it.number, it.arrived, it.error_code.as_deref())).collect();
        assert_eq!(seen, [(1, false, Some("http_500")), (2, true, None)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_2_deciding_touches_no_event_no_subscription_and_no_lease() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 2).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        let leased = stage.lease_one().await;
        let (before, subscription) = (
            stage.webhooks.deliveries.event(event).await.unwrap(),
            stage.webhooks.subscriptions.get(leased.lane).await.unwrap(),
        );
        // A lease that has run out is nothing to the orchestrator.
        stage.advance(Duration::from_secs(3600)).await;
        assert_eq!(stage.decide().await, backstitch_modules::webhooks::Progress::default());
        assert_eq!(stage.number("select count(*) from jobs where status = 'Leased'").await, 1);
        stage.failed(&leased, "http_500").await;
        stage.decide().await;
        assert_eq!(stage.webhooks.deliveries.event(event).await.unwrap(), before);
        assert_eq!(stage.webhooks.subscriptions.get(leased.lane).await.unwrap(), subscription);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_2_a_payload_is_never_looked_into() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 2).await;
        for payload in ["null", "[]", "\"\\u0000\"", "1e999", r#"{"status":"Completed","id":-1}"#] {
            let event = backstitch_modules::webhooks::NewEvent {
                id: None,
                kind: "order.created".to_owned(),
                payload: backstitch::Payload::parse(payload).unwrap(),
            };
            let event = stage.webhooks.ingest.accept(event).await.unwrap().event;
            stage.decide().await;
            let leased = stage.lease_one().await;
            assert_eq!(leased.payload, payload);
            stage.arrived(&leased).await;
            stage.decide().await;
            assert_eq!(stage.saga_of(event).await.status, Status::Completed);
        }
    }
}
