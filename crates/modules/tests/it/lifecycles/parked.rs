//! Items that the database rejects are parked, and their batches go on without them.

use std::time::Duration;

use backstitch::store::parked::ParkedFilter;
use backstitch_testkit::obstacle::IN_THE_WAY;

use crate::lifecycles::services::Answer;
use crate::lifecycles::stage::{Stage, drive};

/// Waits until the instance of this key is parked, which it is alone.
async fn is_parked(stage: &Stage, key: &str) {
    let id = stage.get(key).await.id.to_string();
    let waited = async {
        loop {
            let parked = stage.engine.store().parked(None, 10).await.unwrap();
            if let Some(first) = parked.first() {
                assert_eq!((parked.len(), &*first.area, &first.item), (1, "lifecycle_actions", &id));
                assert!(first.reason.contains(IN_THE_WAY), "{first:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(backstitch_testkit::PATIENCE, waited).await.unwrap();
}

async fn release(stage: &Stage) {
    stage.clear("lifecycles").await;
    let actions = ParkedFilter::of_area("lifecycle_actions");
    assert_eq!(stage.engine.retry_parked(&actions).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_claim_of_an_action_is_parked_and_others_run() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        for key in ["a", "bad", "b"] {
            stage.start(key).await;
        }
        stage.obstruct("lifecycles", "update", "new.key = 'bad'").await;
        let driving = stage.drive();
        stage.until("a", "live").await;
        stage.until("b", "live").await;
        is_parked(&stage, "bad").await;
        stage.start("late").await;
        stage.until("late", "live").await;
        release(&stage).await;
        stage.until("bad", "live").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_answer_of_an_action_is_parked_and_others_run() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        stage.obstruct("lifecycles", "update", "new.key = 'bad' and new.state <> old.state").await;
        let driving = stage.drive();
        for key in ["a", "bad", "b"] {
            stage.start(key).await;
        }
        stage.until("a", "live").await;
        stage.until("b", "live").await;
        is_parked(&stage, "bad").await;
        assert_eq!(stage.state("bad").await, "source_resolving");
        release(&stage).await;
        stage.until("bad", "live").await;
        driving.stop().await;
    }
}

/// Two actions that are running: of `bad` and of `good`.
async fn two_hang(stage: &Stage) {
    for key in ["bad", "good"] {
        stage.services.will("source_resolving", Answer::Hangs);
        stage.start(key).await;
    }
    for _ in 0..2 {
        stage.services.was_asked().await;
    }
}

async fn calls_of(stage: &Stage, key: &str) -> usize {
    let id = stage.get(key).await.id;
    stage.services.calls().iter().filter(|call| call.id == id).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_take_over_is_parked_and_other_actions_run() {
    let mut stage = Stage::sqlite().await;
    stage.provide_driven_sites().await;
    let driving = stage.drive();
    two_hang(&stage).await;
    driving.kill().await;
    stage.obstruct("lifecycles", "update", "new.key = 'bad'").await;
    stage = stage.crash().await;
    let driving = stage.drive();
    stage.until("good", "live").await;
    is_parked(&stage, "bad").await;
    stage.start("late").await;
    stage.until("late", "live").await;
    release(&stage).await;
    stage.until("bad", "live").await;
    driving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn driver_that_cannot_take_over_still_stops() {
    let mut stage = Stage::sqlite().await;
    stage.provide_driven_sites().await;
    let driving = stage.drive();
    two_hang(&stage).await;
    driving.kill().await;
    stage = stage.crash().await;
    // An error that is about no item.
    stage.execute("alter table lifecycles rename to lifecycles_away").await.unwrap();
    let stopped = tokio::time::timeout(backstitch_testkit::PATIENCE, stage.drive().stop()).await;
    stopped.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_renewal_is_parked_and_other_claims_are_renewed() {
    let stage = Stage::postgres().await;
    stage.provide_driven_sites().await;
    let (other_engine, other) = stage.another().await;
    let driving = stage.drive();
    two_hang(&stage).await;
    stage.obstruct("lifecycles", "update", "new.key = 'bad'").await;
    let other_driving = drive(&other);
    is_parked(&stage, "bad").await;
    let expiries = async || stage.texts("select due_at::text from lifecycles where key = 'good'").await;
    let mut latest = expiries().await;
    // Together, eight renewals last twice as long as the lease.
    for _ in 0..8 {
        while expiries().await == latest {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        latest = expiries().await;
    }
    assert_eq!(
        (calls_of(&stage, "good").await, calls_of(&stage, "bad").await),
        (1, 1),
        "neither is called again"
    );
    assert_eq!(stage.texts("select token::text from lifecycles where key = 'good'").await, ["1"]);
    driving.kill().await;
    other_driving.kill().await;
    drop(other);
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_release_is_parked_and_other_claims_are_released() {
    for mut stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        two_hang(&stage).await;
        driving.kill().await;
        stage.obstruct("lifecycles", "update", "new.key = 'bad'").await;
        stage.lifecycles.let_go().await;
        assert_eq!(stage.texts("select key from lifecycles where holder is null").await, ["good"]);
        is_parked(&stage, "bad").await;
        release(&stage).await;
        stage = stage.crash().await;
        let driving = stage.drive();
        stage.until("bad", "live").await;
        stage.until("good", "live").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn action_whose_release_was_rejected_runs_after_its_claim_expires() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        // Its answer is rejected, and so is the release of its claim.
        stage.services.will("source_resolving", Answer::Gives("1"));
        let driving = stage.drive();
        stage
            .obstruct(
                "lifecycles",
                "update",
                "new.key = 'bad' and (new.state <> old.state or new.holder is null)",
            )
            .await;
        stage.start("bad").await;
        is_parked(&stage, "bad").await;
        release(&stage).await;
        stage.until("bad", "live").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_claimed_before_their_batch_failed_are_performed() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        for key in ["a", "b", "bad", "c"] {
            stage.start(key).await;
        }
        stage.obstruct("lifecycles", "update", "new.key = 'bad'").await;
        stage.obstruct("parked_items", "insert", "new.area = 'lifecycle_actions'").await;
        let driving = stage.drive();
        stage.until("a", "live").await;
        stage.until("b", "live").await;
        stage.clear("parked_items").await;
        stage.until("c", "live").await;
        is_parked(&stage, "bad").await;
        release(&stage).await;
        stage.until("bad", "live").await;
        driving.stop().await;
    }
}
