//! Several who decide at once, and crashes between any two transactions: §2.3, §10.2.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch::kernel::delivery::Status;
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::{Answered, Filter, Nobody, Observer, Progress, Terms};

use crate::webhooks::stage::{BASE, Place, Stage, order_created};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s2_3_s7_1_two_orchestrators_at_once_decide_everything_once() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 2).await;
        let other = stage.another().await;
        let events = (0..300).map(|number| order_created(&format!("o-{number}"))).collect();
        stage.webhooks.ingest.accept_all(events).await;
        for round in 0..4 {
            let (here, there) =
                tokio::join!(stage.webhooks.orchestrator.settle(), other.orchestrator.settle());
            let (here, there) = (here.unwrap(), there.unwrap());
            let (begun, applied) = (here.begun + there.begun, here.applied + there.applied);
            let expected = if round % 2 == 0 { (300, 0) } else { (0, 300) };
            assert_eq!((begun, applied), expected);
            if round == 1 {
                stage.advance(BASE).await;
            }
            loop {
                let leased = stage.lease().await;
                if leased.is_empty() {
                    break;
                }
                for leased in leased {
                    // Every job is told twice, on two nodes.
                    assert_eq!(stage.failed(&leased, "http_500").await, Answered::Now);
                    let again = other
                        .jobs
                        .report(crate::webhooks::stage::failure(&leased, "http_500"))
                        .await
                        .unwrap();
                    assert!(matches!(again, Answered::Before(_)));
                }
            }
        }
        let dead =
            "select count(*) from webhook_delivery_sagas where status = 'DeadLettered' and attempt_count = 2";
        assert_eq!(stage.number(dead).await, 300);
        assert_eq!(stage.number("select count(*) from dead_letters").await, 300);
        assert_eq!(stage.number("select count(*) from jobs where status = 'Failed'").await, 600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_2_after_a_crash_between_any_two_transactions_everything_goes_on_and_counts_once() {
    for mut stage in Stage::each().await {
        stage.subscribe(&["*"], 2).await;
        let event = stage.tell("o-1").await.event;
        stage = stage.crash().await;
        assert!(stage.tell("o-1").await.repeated);
        stage = stage.crash().await;
        stage.decide().await;
        stage = stage.crash().await;
        assert_eq!(stage.decide().await.begun, 0, "its job is there");
        let leased = stage.lease_one().await;
        stage = stage.crash().await;
        assert!(stage.lease().await.is_empty(), "its lease stands");
        assert_eq!(stage.failed(&leased, "http_500").await, Answered::Now);
        stage = stage.crash().await;
        assert!(
            matches!(stage.failed(&leased, "http_500").await, Answered::Before(_)),
            "told again after a crash"
        );
        assert_eq!(stage.decide().await.applied, 1);
        stage = stage.crash().await;
        assert_eq!(stage.decide().await.applied, 0);
        stage.advance(BASE).await;
        stage.decide().await;
        stage = stage.crash().await;
        let leased = stage.lease_one().await;
        // Whoever had it is gone for good.
        stage = stage.crash().await;
        stage.advance(crate::webhooks::stage::LEASE).await;
        stage.webhooks.jobs.expire().await.unwrap();
        stage = stage.crash().await;
        let again = stage.lease_one().await;
        assert_eq!((again.job, again.attempt, again.token), (leased.job, 2, leased.token + 1));
        stage.arrived(&again).await;
        stage = stage.crash().await;
        stage.decide().await;
        stage = stage.crash().await;
        let saga = stage.saga_of(event).await;
        assert_eq!((saga.status, saga.attempt_count), (Status::Completed, 2));
        assert_eq!(stage.webhooks.deliveries.attempts(saga.id).await.unwrap().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_orchestrator_is_woken_by_whoever_leaves_it_something_to_decide() {
    for stage in Stage::each().await {
        stage.subscribe(&["*"], 2).await;
        let orchestrator = stage.webhooks.orchestrator.clone();
        let running = tokio::spawn(async move { orchestrator.run(&Nobody).await });
        let jobs = stage.webhooks.jobs.clone();
        let mut seen = HashMap::new();
        for number in 0..3 {
            let offered = jobs.offered();
            let event = stage.tell(&format!("o-{number}")).await.event;
            offered.await;
            let leased = stage.lease_one().await;
            stage.arrived(&leased).await;
            seen.insert(leased.event, event);
        }
        assert!(seen.iter().all(|(leased, told)| leased == told));
        let done = Filter { status: Some(Status::Completed), ..Filter::default() };
        while stage.webhooks.deliveries.list(&done, 10, None).await.unwrap().items.len() < 3 {
            tokio::task::yield_now().await;
        }
        running.abort();
    }
}

/// More than are decided in one transaction.
const MANY: usize = 600;

#[tokio::test(flavor = "multi_thread")]
async fn all_that_are_given_up_at_once_are_given_up_and_counted_however_many() {
    for stage in Stage::each().await {
        let subscription = stage.subscribe(&["*"], 8).await;
        let events = (0..MANY).map(|number| order_created(&format!("o-{number}"))).collect();
        stage.webhooks.ingest.accept_all(events).await;
        assert_eq!(stage.decide().await.begun, MANY);
        let mut leased = stage.lease().await;
        while !leased.is_empty() {
            futures::future::join_all(leased.iter().map(|leased| stage.failed(leased, "http_500"))).await;
            leased = stage.lease().await;
        }
        let taken_in = stage.decide().await;
        assert_eq!((taken_in.applied, taken_in.ignored, taken_in.dead_lettered), (MANY, 0, 0));
        let terms = Terms { max_retry_limit: 1, ..subscription.terms.clone() };
        stage.registrar_to(Egress::default()).change(&subscription, &terms, None).await.unwrap();
        stage.advance(BASE).await;
        let given_up = stage.decide().await;
        assert_eq!((given_up.dead_lettered, given_up.begun), (MANY, 0), "none waits for another look");
    }
}

/// Adds up what was decided.
#[derive(Default)]
struct Begun(AtomicUsize);

impl Observer for Begun {
    fn progressed(&self, progress: &Progress) {
        self.0.fetch_add(progress.begun, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_is_counted_whatever_becomes_of_what_comes_after_it() {
    let stage = Stage::sqlite().await;
    stage.subscribe(&["*"], 8).await;
    let events = (0..MANY).map(|number| order_created(&format!("o-{number}"))).collect();
    stage.webhooks.ingest.accept_all(events).await;
    let last = stage.number("select max(id) from webhook_delivery_sagas").await;
    let refuse = format!(
        "create trigger refused before insert on jobs when new.delivery_id = {last}
         begin select raise(abort, 'not this one'); end"
    );
    stage.execute(&refuse).await.unwrap();
    let (orchestrator, begun) = (stage.webhooks.orchestrator.clone(), Arc::new(Begun::default()));
    let observer = begun.clone();
    let running = tokio::spawn(async move { orchestrator.run(&*observer).await });
    // The counter follows each batch a moment later.
    let jobs = loop {
        let jobs = usize::try_from(stage.number("select count(*) from jobs").await).unwrap();
        if jobs > 0 && begun.0.load(Ordering::SeqCst) == jobs {
            break jobs;
        }
        tokio::task::yield_now().await;
    };
    assert!((1..MANY).contains(&jobs), "the last one is not begun: {jobs}");
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_attempt_does_not_wait_for_what_came_of_others() {
    let stage = Stage::postgres().await;
    stage.subscribe(&["*"], 2).await;
    let Place::Postgres { session, .. } = &stage.place else { panic!("on a server") };
    session.batch_execute("begin; lock table backstitch.job_results").await.unwrap();
    let orchestrator = stage.webhooks.orchestrator.clone();
    let running = tokio::spawn(async move { orchestrator.run(&Nobody).await });
    let offered = stage.webhooks.jobs.offered();
    let event = stage.tell("o-1").await.event;
    // Shorter than a database is waited for: whoever is held up by the lock does not get there in time.
    tokio::time::timeout(Duration::from_secs(8), offered).await.expect("an attempt is offered");
    let leased = stage.lease_one().await;
    assert_eq!(leased.event, event);
    session.batch_execute("commit").await.unwrap();
    stage.arrived(&leased).await;
    while stage.saga_of(event).await.status != Status::Completed {
        tokio::task::yield_now().await;
    }
    running.abort();
}
