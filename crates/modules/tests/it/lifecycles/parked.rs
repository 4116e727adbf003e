//! Items that the database rejects are parked, and their batches go on without them.

use std::time::Duration;

use backstitch::store::parked::ParkedFilter;
use backstitch_testkit::obstacle::IN_THE_WAY;

use crate::lifecycles::stage::Stage;

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
