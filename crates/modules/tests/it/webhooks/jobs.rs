//! Jobs: one active at a time, fenced by their token, leased by lane: §5.2, §7.1.

use std::time::Duration;

use backstitch::kernel::delivery::Status;
use backstitch::secs;
use backstitch_modules::webhooks::{Answered, Ask, Expired, LEASE_EXPIRED, SUBSCRIPTION_DELETED, Won};
use futures::FutureExt as _;

use crate::webhooks::stage::{LEASE, Stage, asks};

#[tokio::test(flavor = "multi_thread")]
async fn s5_2_s7_1_a_delivery_has_one_active_job_and_the_database_refuses_a_second() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        stage.tell("o-1").await;
        stage.decide().await;
        let second = "insert into jobs (delivery_id, lane, queue, until, created_at)
            select delivery_id, lane, queue, until, created_at from jobs";
        let refused = stage.execute(second).await.unwrap_err();
        assert!(
            refused.contains("jobs_active_delivery") || refused.contains("jobs.delivery_id"),
            "{refused}"
        );
        let leased = stage.lease_one().await;
        stage.execute(second).await.unwrap_err();
        stage.failed(&leased, "http_500").await;
        // Jobs that are over are history, and never used again.
        let again = stage.execute("update jobs set status = 'Pending'").await.unwrap_err();
        assert!(again.contains("never used again"), "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_2_s7_3_a_delivery_that_has_an_active_job_gets_no_other_and_holds_up_nobody() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let odd = stage.saga_of(stage.tell("o-1").await.event).await;
        // Somebody has put a job there that the orchestrator knows nothing of.
        let foreign = format!(
            "insert into jobs (delivery_id, lane, queue, until, created_at)
             select id, subscription_id, 'deliver/webhooks', created_at, created_at
             from webhook_delivery_sagas where id = {}",
            odd.id
        );
        stage.execute(&foreign).await.unwrap();
        stage.tell("o-2").await;
        assert_eq!(stage.decide().await.begun, 1);
        assert_eq!(stage.saga(odd.id).await.status, Status::Pending);
        assert_eq!(stage.number("select count(*) from jobs").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_token_changes_nothing_and_is_told_what_won() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        let slow = stage.lease_one().await;
        stage.advance(LEASE).await;
        assert_eq!(stage.webhooks.jobs.expire().await.unwrap(), Expired { put_back: 1, failed: 0 });
        assert_eq!(stage.arrived(&slow).await, Answered::Stale(None), "it waits for somebody else");
        let quick = stage.lease_one().await;
        assert_eq!((quick.job, quick.token), (slow.job, slow.token + 1));
        assert_eq!(quick.attempt, 1, "an expired lease costs no attempt");
        assert_eq!(stage.arrived(&slow).await, Answered::Stale(None));
        let jobs = &stage.webhooks.jobs;
        assert_eq!(jobs.extend(slow.job, slow.token, LEASE).await.unwrap(), Err(Answered::Stale(None)));
        let until = jobs.extend(quick.job, quick.token, LEASE * 2).await.unwrap().unwrap();
        assert_eq!(until, stage.now().plus(LEASE * 2));
        assert_eq!(stage.failed(&quick, "http_500").await, Answered::Now);
        let won = Some(Won::Failed("http_500".to_owned()));
        assert_eq!(stage.arrived(&slow).await, Answered::Stale(won));
        assert_eq!(
            stage.arrived(&backstitch_modules::webhooks::Leased { job: 999, ..slow }).await,
            Answered::Unknown
        );
        stage.decide().await;
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::PendingRetry, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fifth_lease_that_runs_out_fails_the_job_and_that_is_a_result_like_any_other() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        for round in 1..=5 {
            let leased = stage.lease_one().await;
            assert_eq!((leased.token, leased.attempt), (round, 1));
            stage.advance(LEASE.saturating_sub(Duration::from_micros(1))).await;
            assert_eq!(stage.webhooks.jobs.expire().await.unwrap(), Expired::default());
            stage.advance(Duration::from_micros(1)).await;
            let expired = stage.webhooks.jobs.expire().await.unwrap();
            assert_eq!((expired.put_back, expired.failed), if round < 5 { (1, 0) } else { (0, 1) });
            assert_eq!(stage.decide().await.applied, usize::from(round == 5));
        }
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::PendingRetry, 1));
        assert_eq!(saga.final_error_code.as_deref(), Some(LEASE_EXPIRED));
        let attempts = stage.webhooks.deliveries.attempts(saga.id).await.unwrap();
        assert_eq!(attempts[0].error_code.as_deref(), Some(LEASE_EXPIRED));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_back_waits_again_at_no_cost_however_often() {
    for stage in Stage::each().await {
        stage.subscribe(&["order.*"], 8).await;
        stage.tell("o-1").await;
        stage.decide().await;
        for round in 1..=7 {
            let leased = stage.lease_one().await;
            assert_eq!((leased.token, leased.attempt), (round, 1));
            stage.webhooks.jobs.give_back(leased.job, leased.token).await.unwrap().unwrap();
            let late = stage.arrived(&leased).await;
            assert_eq!(late, Answered::Stale(None));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lane_gives_its_own_share_and_a_long_one_hides_no_other() {
    for stage in Stage::each().await {
        let [busy, quiet] = [stage.subscribe(&["order.*"], 8).await, stage.subscribe(&["rare"], 8).await];
        let events =
            (0..40).map(|number| crate::webhooks::stage::order_created(&format!("o-{number}"))).collect();
        stage.webhooks.ingest.accept_all(events).await;
        let rare = backstitch_modules::webhooks::NewEvent {
            kind: "rare".to_owned(),
            ..crate::webhooks::stage::order_created("r-1")
        };
        stage.webhooks.ingest.accept(rare).await.unwrap();
        stage.decide().await;
        let jobs = &stage.webhooks.jobs;
        let lanes = jobs.lanes(0, 10).await.unwrap();
        assert_eq!(lanes.open.iter().map(|lane| lane.id).collect::<Vec<_>>(), [busy.id, quiet.id]);
        assert_eq!((lanes.next, lanes.deleted.len()), (None, 0));
        let page = jobs.lanes(0, 1).await.unwrap();
        assert_eq!((page.open.len(), page.next), (1, Some(busy.id)));
        assert_eq!(jobs.lanes(busy.id, 1).await.unwrap().open[0].id, quiet.id);

        let leased = jobs.lease(&asks(&[(busy.id, 3), (quiet.id, 3), (busy.id, 9), (999, 9)])).await.unwrap();
        let of = |lane: i64| leased.iter().filter(move |leased| leased.lane == lane).map(|leased| leased.job);
        assert_eq!((of(busy.id).count(), of(quiet.id).count()), (3, 1));
        assert!(of(busy.id).is_sorted(), "oldest first");
        let more = jobs.lease(&asks(&[(busy.id, 100)])).await.unwrap();
        assert_eq!(more.len(), 37, "nothing is leased twice");
        assert!(jobs.lanes(0, 10).await.unwrap().open.is_empty(), "what is leased does not wait");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_only_keeps_jobs_from_being_leased() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await;
        stage.webhooks.subscriptions.gone(subscription.id, &subscription.terms.url).await.unwrap();
        let event = stage.tell("o-1").await.event;
        stage.decide().await;
        assert_eq!(stage.saga_of(event).await.status, Status::InProgress, "its job is made, and waits");
        assert!(stage.webhooks.jobs.lanes(0, 10).await.unwrap().open.is_empty());
        let forced = stage.webhooks.jobs.lease(&asks(&[(subscription.id, 9)])).await.unwrap();
        assert!(forced.is_empty(), "not even by somebody who has not heard of it");
        stage.webhooks.subscriptions.enable(subscription.id).await.unwrap();
        stage.arrived(&stage.lease_one().await).await;
        stage.decide().await;
        assert_eq!(stage.saga_of(event).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_its_way_to_a_deleted_subscription_is_given_up_with_that_reason() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await;
        let [waiting, sending] = ["o-1", "o-2"];
        let sending = stage.tell(sending).await.event;
        stage.decide().await;
        let leased = stage.lease_one().await;
        let waiting = stage.tell(waiting).await.event;
        stage.webhooks.subscriptions.delete(subscription.id).await.unwrap();
        assert_eq!(stage.tell("o-3").await.deliveries, 0, "nothing is routed to it any more");
        stage.decide().await;
        let lanes = stage.webhooks.jobs.lanes(0, 10).await.unwrap();
        assert_eq!((lanes.open.len(), lanes.deleted), (0, vec![subscription.id]));
        assert_eq!(stage.webhooks.jobs.close_lane(subscription.id).await.unwrap(), 1);
        stage.arrived(&leased).await;
        stage.decide().await;
        assert_eq!(stage.saga_of(sending).await.status, Status::Completed, "it had left already");
        let given_up = stage.saga_of(waiting).await;
        assert_eq!(given_up.status, Status::DeadLettered);
        assert_eq!(given_up.final_error_code.as_deref(), Some(SUBSCRIPTION_DELETED));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_4_a_job_that_ends_with_its_subscription_counts_as_a_result_and_says_that_nothing_was_sent() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["order.*"], 8).await;
        let lost = stage.tell("o-1").await.event;
        stage.decide().await;
        stage.lease_one().await;
        stage.advance(LEASE).await;
        assert_eq!(stage.webhooks.jobs.expire().await.unwrap(), Expired { put_back: 1, failed: 0 });
        let waiting = stage.tell("o-2").await.event;
        stage.decide().await;
        stage.webhooks.subscriptions.delete(subscription.id).await.unwrap();
        assert_eq!(stage.webhooks.jobs.close_lane(subscription.id).await.unwrap(), 2);
        stage.decide().await;
        for (event, says) in [(waiting, "no request was made"), (lost, "a request may have been made")] {
            let saga = stage.saga_of(event).await;
            assert_eq!((saga.status, saga.attempt_count), (Status::DeadLettered, 1));
            let attempts = stage.webhooks.deliveries.attempts(saga.id).await.unwrap();
            assert_eq!(attempts.len(), 1, "as many as were counted");
            assert_eq!(attempts[0].error_code.as_deref(), Some(SUBSCRIPTION_DELETED));
            assert!(attempts[0].error.as_deref().is_some_and(|error| error.contains(says)), "{attempts:?}");
            assert!(attempts[0].started_at.is_none() && attempts[0].duration.is_none(), "{attempts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lane_is_leased_for_as_long_as_its_own_request_may_take() {
    for stage in Stage::each().await {
        let [quick, slow] = [stage.subscribe(&["*"], 8).await.id, stage.subscribe(&["*"], 8).await.id];
        stage.tell("o-1").await;
        stage.decide().await;
        let ask = |lane, seconds| Ask { lane, most: 9, lease: secs(seconds), as_of: stage.now() };
        let leased = stage.webhooks.jobs.lease(&[ask(quick, 25), ask(slow, 3610)]).await.unwrap();
        let until = |lane| leased.iter().find(|leased| leased.lane == lane).unwrap().until;
        assert_eq!(until(quick), stage.now().plus(secs(25)));
        assert_eq!(until(slow), stage.now().plus(secs(3610)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_does_not_expire_while_a_report_is_being_written() {
    let stage = Stage::sqlite().await;
    stage.subscribe(&["order.*"], 8).await;
    stage.tell("o-1").await;
    stage.decide().await;
    stage.lease_one().await;
    let report = stage.engine.arriving_answers().arrive();
    stage.advance(LEASE).await;
    let mut expired = std::pin::pin!(stage.webhooks.jobs.expire());
    assert!(expired.as_mut().now_or_never().is_none());
    drop(report);
    assert_eq!(expired.await.unwrap(), Expired { put_back: 1, failed: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_does_not_expire_before_every_node_has_written() {
    let stage = Stage::postgres().await;
    stage.subscribe(&["order.*"], 8).await;
    stage.tell("o-1").await;
    stage.decide().await;
    stage.lease_one().await;
    stage.advance(LEASE).await;
    // Another node has a report that arrived while the lease lasted.
    let stalled = "insert into nodes (name, lease_ms, heartbeat_at, answers_written_until)
        values ('other', 60000, clock(), clock() - interval '1 second')";
    stage.execute(stalled).await.unwrap();
    assert_eq!(stage.webhooks.jobs.expire().await.unwrap(), Expired::default());
    // It is dead, and writes nothing any more.
    stage
        .execute("update nodes set heartbeat_at = clock() - interval '1 minute' where name = 'other'")
        .await
        .unwrap();
    assert_eq!(stage.webhooks.jobs.expire().await.unwrap(), Expired { put_back: 1, failed: 0 });
}
