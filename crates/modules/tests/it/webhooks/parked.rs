//! Items that the database rejects are parked, and their batches go on without them.

use std::sync::Arc;
use std::time::Duration;

use backstitch::WorkerQueue as _;
use backstitch::kernel::delivery::Status;
use backstitch::store::parked::ParkedFilter;
use backstitch_modules::webhooks::{
    Ages, Answered, DeliveryQueue, Expired, LetterConflict, Nobody, Report, Which, Won,
};

use crate::webhooks::pruned::prune_areas;
use crate::webhooks::stage::{LEASE, Place, Stage, success};

/// For how long an item is parked that was rejected once.
const PARKED: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What is parked, as its area and item.
async fn parked(stage: &Stage) -> Vec<(String, String)> {
    let parked = stage.engine.store().parked(None, 10).await.unwrap();
    parked.into_iter().map(|parked| (parked.area, parked.item)).collect()
}

fn one(area: &str, item: i64) -> Vec<(String, String)> {
    vec![(area.to_owned(), item.to_string())]
}

/// Three deliveries to one subscription that are attempted once.
async fn three_deliveries(stage: &Stage) -> [i64; 3] {
    stage.subscribe(&["order.*"], 1).await;
    let mut deliveries = [0; 3];
    for (nth, delivery) in deliveries.iter_mut().enumerate() {
        let event = stage.tell(&format!("o-{nth}")).await.event;
        *delivery = stage.saga_of(event).await.id;
    }
    deliveries
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_result_is_parked_and_others_are_applied() {
    for stage in Stage::each().await {
        let [_, bad, _] = three_deliveries(&stage).await;
        stage.decide().await;
        let leased = stage.lease().await;
        let job = leased.iter().find(|leased| leased.delivery == bad).unwrap().job;
        // Another program has inserted the dead letter that the end of this delivery inserts.
        let conflict = format!(
            "insert into dead_letters (saga_id, event_id, subscription_id, attempt_count, webhook_id, created_at)
             select id, event_id, subscription_id, 1, webhook_id, created_at from webhook_delivery_sagas
             where id = {bad}"
        );
        stage.execute(&conflict).await.unwrap();
        for leased in &leased {
            stage.failed(leased, "http_500").await;
        }
        let decided = stage.decide().await;
        assert_eq!((decided.applied, decided.dead_lettered), (2, 2));
        assert_eq!(stage.saga(bad).await.status, Status::InProgress);
        assert_eq!(parked(&stage).await, one("webhook_results", job));

        // As after a crash before it was parked.
        stage.execute("delete from parked_items").await.unwrap();
        let event = stage.tell("o-9").await.event;
        assert_eq!(stage.decide().await.begun, 1);
        assert_eq!(parked(&stage).await, one("webhook_results", job));
        stage.arrived(&stage.lease_one().await).await;
        assert_eq!(stage.decide().await.completed, 1, "others go on while it is parked");
        assert_eq!(stage.saga_of(event).await.status, Status::Completed);

        stage
            .execute_unguarded("dead_letters", &format!("delete from dead_letters where saga_id = {bad}"))
            .await;
        stage.execute(&format!("delete from waiting_dead_letters where saga_id = {bad}")).await.unwrap();
        assert_eq!(stage.decide().await.applied, 0, "it is passed over until its time");
        stage.advance(PARKED).await;
        assert_eq!(stage.decide().await.dead_lettered, 1);
        assert_eq!(stage.saga(bad).await.status, Status::DeadLettered);
        assert_eq!(parked(&stage).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_dead_letter_is_removed_and_result_applied() {
    for stage in Stage::each().await {
        let [_, bad, _] = three_deliveries(&stage).await;
        stage.decide().await;
        let leased = stage.lease().await;
        let job = leased.iter().find(|leased| leased.delivery == bad).unwrap().job;
        let conflict = format!(
            "insert into dead_letters (saga_id, event_id, subscription_id, attempt_count, webhook_id, created_at)
             select id, event_id, subscription_id, 4711, webhook_id, created_at from webhook_delivery_sagas
             where id = {bad}"
        );
        stage.execute(&conflict).await.unwrap();
        for leased in &leased {
            stage.failed(leased, "http_500").await;
        }
        stage.decide().await;
        assert_eq!(parked(&stage).await, one("webhook_results", job));

        let letters = &stage.webhooks.dead_letters;
        let removed = letters.remove_conflict(LetterConflict::OfJob(job)).await.unwrap().unwrap();
        assert_eq!((removed.saga_id, removed.attempt_count), (bad, 4711), "it is told what was removed");
        assert_eq!(letters.remove_conflict(LetterConflict::OfJob(job)).await.unwrap(), None);
        stage.engine.retry_parked(&ParkedFilter::one("webhook_results", &job.to_string())).await.unwrap();
        assert_eq!(stage.decide().await.dead_lettered, 1);
        assert_eq!(stage.saga(bad).await.status, Status::DeadLettered);
        assert_eq!(letters.get(bad).await.unwrap().attempt_count, 1);
        assert_eq!(parked(&stage).await, []);

        // Its own dead letter is history, like those of the others.
        assert_eq!(letters.remove_conflict(LetterConflict::OfJob(job)).await.unwrap(), None);
        for leased in &leased {
            let delete = format!("delete from dead_letters where saga_id = {}", leased.delivery);
            stage.execute(&delete).await.unwrap_err();
        }
    }
}

/// Another program inserts the dead letter that the end of this delivery inserts.
async fn insert_conflict(stage: &Stage, delivery: i64) {
    let conflict = format!(
        "insert into dead_letters (saga_id, event_id, subscription_id, attempt_count, webhook_id, created_at)
         select id, event_id, subscription_id, 4711, webhook_id, created_at from webhook_delivery_sagas
         where id = {delivery}"
    );
    stage.execute(&conflict).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_dead_letter_is_removed_and_delivery_given_up() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await.id;
        let mut deliveries = Vec::new();
        for id in ["o-1", "o-2"] {
            deliveries.push(stage.saga_of(stage.tell(id).await.event).await.id);
        }
        stage.decide().await;
        for leased in stage.lease().await {
            stage.failed(&leased, "http_500").await;
        }
        stage.decide().await;
        // With the limit lowered, they are given up when their next attempts are due.
        let lower = format!("update webhook_subscriptions set max_retry_limit = 1 where id = {subscription}");
        stage.execute(&lower).await.unwrap();
        let [bad, other] = deliveries[..] else { panic!("{deliveries:?}") };
        insert_conflict(&stage, bad).await;
        stage.advance(Duration::from_secs(3600)).await;
        assert_eq!(stage.decide().await.dead_lettered, 1);
        assert_eq!(stage.saga(other).await.status, Status::DeadLettered);
        assert_eq!(parked(&stage).await, one("webhook_deliveries", bad));

        let letters = &stage.webhooks.dead_letters;
        let conflict = LetterConflict::OfDelivery(bad);
        let removed = letters.remove_conflict(conflict).await.unwrap().unwrap();
        assert_eq!((removed.saga_id, removed.attempt_count), (bad, 4711));
        assert_eq!(letters.remove_conflict(LetterConflict::OfDelivery(other)).await.unwrap(), None);
        let retry = ParkedFilter::one("webhook_deliveries", &bad.to_string());
        stage.engine.retry_parked(&retry).await.unwrap();
        assert_eq!(stage.decide().await.dead_lettered, 1);
        assert_eq!(letters.get(bad).await.unwrap().attempt_count, 1);
        assert_eq!(parked(&stage).await, []);
        assert_eq!(letters.remove_conflict(conflict).await.unwrap(), None, "its own dead letter stays");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letter_requeued_before_its_removal_is_listed_as_requeued() {
    for stage in Stage::each().await {
        let [_, bad, _] = three_deliveries(&stage).await;
        stage.decide().await;
        let leased = stage.lease().await;
        let job = leased.iter().find(|leased| leased.delivery == bad).unwrap().job;
        insert_conflict(&stage, bad).await;
        let letters = &stage.webhooks.dead_letters;
        let requeued = letters.requeue(bad).await.unwrap().delivery;
        for leased in &leased {
            stage.failed(leased, "http_500").await;
        }
        stage.decide().await;
        letters.remove_conflict(LetterConflict::OfJob(job)).await.unwrap().unwrap();
        stage.engine.retry_parked(&ParkedFilter::one("webhook_results", &job.to_string())).await.unwrap();
        assert_eq!(stage.decide().await.dead_lettered, 1);
        assert_eq!(letters.get(bad).await.unwrap().requeued_as, Some(requeued));
        let waiting = Which { not_requeued: true, ..Which::default() };
        let waiting = letters.list(&waiting, 10, None).await.unwrap().items;
        let waiting: Vec<i64> = waiting.iter().map(|letter| letter.saga_id).collect();
        assert!(waiting.len() == 2 && !waiting.contains(&bad), "{waiting:?}");
        assert_eq!(letters.count_unrequeued().await.unwrap(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_dead_letter_that_exists_can_wait() {
    for stage in Stage::each().await {
        let dead = stage.dead_letter("o-1").await.id;
        let insert = format!(
            "insert into waiting_dead_letters
                (saga_id, event_id, subscription_id, attempt_count, webhook_id, created_at)
             select saga_id + 1, event_id, subscription_id, attempt_count, webhook_id, created_at
             from dead_letters where saga_id = {dead}"
        );
        let refused = stage.execute(&insert).await.unwrap_err();
        assert!(refused.contains("only a new dead letter waits"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_removal_of_a_webhook_is_exported_once() {
    for stage in Stage::each().await {
        let [_, bad, other] = three_deliveries(&stage).await;
        let event = stage.saga(other).await.event_id;
        stage.decide().await;
        for leased in stage.lease().await {
            stage.arrived(&leased).await;
        }
        assert_eq!(stage.decide().await.completed, 3);
        stage.obstruct("webhook_delivery_sagas", "delete", &format!("old.id = {bad}")).await;
        stage.obstruct("webhook_events", "delete", &format!("old.id = {event}")).await;
        stage.advance(DAY * 2).await;
        let ages = Ages { completed: Some(DAY), dead_lettered: Some(DAY), events: Some(DAY) };
        for _ in 0..3 {
            // So that the time of the next round is another one.
            stage.advance(Duration::from_millis(1)).await;
            let last_run = stage.engine.removed().last_run;
            let failed = stage.engine.removed().failed;
            // Whoever comes to it begins a round.
            stage.engine.prune_with(stage.webhooks.retention(&ages));
            let is_over = || {
                let report = stage.engine.removed();
                report.last_run != last_run || report.failed > failed
            };
            while !is_over() {
                tokio::task::yield_now().await;
            }
        }
        let count = |kind: &str| stage.shelf.of_kind(kind).len();
        assert_eq!((count("delivery"), count("event")), (3, 2), "the event of the delivery that stays, too");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_attempt_is_parked_and_others_begin() {
    for stage in Stage::each().await {
        let [_, bad, _] = three_deliveries(&stage).await;
        stage.obstruct("jobs", "insert", &format!("new.delivery_id = {bad}")).await;
        assert_eq!(stage.decide().await.begun, 2);
        assert_eq!(parked(&stage).await, one("webhook_deliveries", bad));
        let orchestrator = &stage.webhooks.orchestrator;
        assert_eq!(orchestrator.next_due().await.unwrap(), None, "it is not due before its time");
        assert_eq!(stage.lease().await.len(), 2);

        stage.clear("jobs").await;
        assert_eq!(stage.decide().await.begun, 0);
        stage.advance(PARKED).await;
        assert_eq!(stage.decide().await.begun, 1);
        assert_eq!(parked(&stage).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_lease_is_parked_and_others_are_leased() {
    for stage in Stage::each().await {
        for _ in 0..2 {
            stage.subscribe(&["order.*"], 8).await;
        }
        stage.tell("o-1").await;
        stage.tell("o-2").await;
        stage.decide().await;
        let job = stage.number("select min(id) from jobs").await;
        stage.obstruct("jobs", "update", &format!("new.id = {job} and new.status = 'Leased'")).await;
        let leased = stage.lease().await;
        assert_eq!(leased.len(), 3);
        assert!(leased.iter().all(|leased| leased.job != job));
        assert_eq!(parked(&stage).await, one("webhook_jobs", job));
        assert!(stage.webhooks.jobs.lanes(0, 10).await.unwrap().open.is_empty(), "its lane has nothing else");
        assert_eq!(stage.lease().await.len(), 0);

        stage.clear("jobs").await;
        stage.advance(PARKED).await;
        assert_eq!(stage.lease_one().await.job, job);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_get_other_deliveries_when_a_lease_is_rejected() {
    for stage in Stage::each().await {
        for _ in 0..2 {
            stage.subscribe(&["order.*"], 8).await;
        }
        stage.tell("o-1").await;
        stage.decide().await;
        let job = stage.number("select min(id) from jobs").await;
        stage.obstruct("jobs", "update", &format!("new.id = {job} and new.status = 'Leased'")).await;
        let counter =
            DeliveryQueue::of(stage.dispatch(), stage.webhooks.subscriptions.clone(), Arc::new(Nobody));
        let work = counter.lease(&["webhooks"], 10, LEASE).await.unwrap();
        assert_eq!(work.len(), 1);
        assert_ne!(work[0].job, job);
        assert_eq!(parked(&stage).await, one("webhook_jobs", job));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_report_counts_once_the_database_takes_it() {
    for table in ["webhook_attempts", "job_results"] {
        for stage in Stage::each().await {
            let [_, bad, _] = three_deliveries(&stage).await;
            stage.decide().await;
            let leased = stage.lease().await;
            let rejected = leased.iter().find(|leased| leased.delivery == bad).unwrap();
            let job = rejected.job;
            stage.obstruct(table, "insert", &format!("new.job_id = {job}")).await;
            for leased in &leased {
                assert_eq!(stage.arrived(leased).await, Answered::Now);
            }
            assert_eq!(stage.arrived(rejected).await, Answered::Before(Won::Completed), "its first report");
            assert_eq!(stage.decide().await.completed, 2);
            assert_eq!(parked(&stage).await, one("webhook_jobs", job));

            let jobs = &stage.webhooks.jobs;
            for _ in 0..2 {
                // However long it takes, the webhook is not sent again.
                stage.advance(PARKED * 2).await;
                assert_eq!(jobs.expire().await.unwrap(), Expired::default());
                assert_eq!(jobs.settle_rejected().await.unwrap(), 0);
                assert_eq!(parked(&stage).await, one("webhook_jobs", job));
            }
            assert_eq!(stage.lease().await.len(), 0);

            stage.clear(table).await;
            stage.engine.retry_parked(&ParkedFilter::one("webhook_jobs", &job.to_string())).await.unwrap();
            assert_eq!(jobs.settle_rejected().await.unwrap(), 1);
            assert_eq!(stage.decide().await.completed, 1);
            assert_eq!(stage.webhooks.deliveries.attempts(bad).await.unwrap().len(), 1);
            assert_eq!(jobs.settle_rejected().await.unwrap(), 0, "it is forgotten");
            assert_eq!(parked(&stage).await, []);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reason_of_a_rejected_row_has_none_of_its_values() {
    for stage in Stage::each().await {
        let mut constraints = vec!["add column extra text check (body is null)"];
        if matches!(stage.place, Place::Postgres { .. }) {
            constraints.push("drop column extra, alter column url set not null");
        }
        stage.subscribe(&["order.*"], 8).await;
        for (nth, constraint) in constraints.into_iter().enumerate() {
            stage.execute(&format!("alter table webhook_attempts {constraint}")).await.unwrap();
            stage.tell(&format!("o-{nth}")).await;
            stage.decide().await;
            let leased = stage.lease_one().await;
            let report = Report { body: Some("token=s3cret".to_owned()), ..success(&leased) };
            stage.webhooks.jobs.report(report).await.unwrap();
            let parked = stage.engine.store().parked(None, 10).await.unwrap();
            assert_eq!(parked.len(), nth + 1);
            for parked in parked {
                assert!(parked.reason.contains("constraint"), "{parked:?}");
                assert!(!parked.reason.contains("s3cret"), "{parked:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_end_of_a_lease_is_parked_and_others_are_put_back() {
    for stage in Stage::each().await {
        three_deliveries(&stage).await;
        stage.decide().await;
        let job = stage.lease().await[1].job;
        stage.obstruct("jobs", "update", &format!("new.id = {job} and new.status <> 'Leased'")).await;
        stage.advance(LEASE).await;
        let jobs = &stage.webhooks.jobs;
        assert_eq!(jobs.expire().await.unwrap(), Expired { put_back: 2, failed: 0 });
        assert_eq!(parked(&stage).await, one("webhook_jobs", job));
        assert_eq!(jobs.expire().await.unwrap(), Expired::default());

        stage.clear("jobs").await;
        stage.advance(PARKED).await;
        assert_eq!(jobs.expire().await.unwrap(), Expired { put_back: 1, failed: 0 });
        assert_eq!(parked(&stage).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_job_of_a_deleted_subscription_is_parked() {
    for stage in Stage::each().await {
        three_deliveries(&stage).await;
        stage.decide().await;
        let lane = stage.webhooks.jobs.lanes(0, 10).await.unwrap().open[0].id;
        let job = stage.number("select min(id) from jobs").await;
        stage.obstruct("job_results", "insert", &format!("new.job_id = {job}")).await;
        stage.webhooks.subscriptions.delete(lane).await.unwrap();
        let jobs = &stage.webhooks.jobs;
        assert_eq!(jobs.close_lane(lane).await.unwrap(), 3, "two are given up, and one is parked");
        assert_eq!(parked(&stage).await, one("webhook_jobs", job));
        assert_eq!(jobs.close_lane(lane).await.unwrap(), 0);

        stage.clear("job_results").await;
        stage.advance(PARKED).await;
        assert_eq!(jobs.close_lane(lane).await.unwrap(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_removal_of_a_webhook_is_parked_and_others_go() {
    for stage in Stage::each().await {
        let [_, bad, other] = three_deliveries(&stage).await;
        let event = stage.saga(other).await.event_id;
        stage.decide().await;
        for leased in stage.lease().await {
            stage.arrived(&leased).await;
        }
        assert_eq!(stage.decide().await.completed, 3);
        stage.obstruct("webhook_delivery_sagas", "delete", &format!("old.id = {bad}")).await;
        stage.obstruct("webhook_events", "delete", &format!("old.id = {event}")).await;
        stage.advance(DAY * 2).await;
        let ages = Ages { completed: Some(DAY), dead_lettered: Some(DAY), events: Some(DAY) };
        let areas = stage.webhooks.retention(&ages);
        let pruned = prune_areas(&stage, &areas).await;
        assert_eq!((pruned.deliveries, pruned.events), (2, 1));
        let mut parked_items = parked(&stage).await;
        parked_items.sort();
        let expected =
            [one("webhook_delivery_retention", bad), one("webhook_event_retention", event)].concat();
        assert_eq!(parked_items, expected);

        stage.clear("webhook_delivery_sagas").await;
        stage.clear("webhook_events").await;
        stage.advance(PARKED).await;
        let mut left = (0, 0);
        // An event that stayed is met by the next walk.
        while left != (1, 2) {
            let pruned = prune_areas(&stage, &areas).await;
            left = (left.0 + pruned.deliveries, left.1 + pruned.events);
        }
        assert_eq!(parked(&stage).await, []);
    }
}
