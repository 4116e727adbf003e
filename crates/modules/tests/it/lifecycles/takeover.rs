//! Processes that go away while they perform actions, and those who take over.

use std::time::Duration;

use backstitch_modules::lifecycles::Given;
use backstitch_modules::lifecycles::sites::PATH;

use crate::lifecycles::services::Answer;
use crate::lifecycles::stage::{SITES, Stage, drive};

/// Long enough for two renewals in time on a busy machine.
const LONG_LEASE: Duration = Duration::from_secs(6);
const ACTIONS: [&str; 3] = ["source_resolving", "vercel_creating", "hook_creating"];

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_any_action_repeats_that_one_and_no_other() {
    for crashes_in in ACTIONS {
        for mut stage in Stage::each().await {
            stage.provide_driven_sites().await;
            let driving = stage.drive();
            stage.services.will(crashes_in, Answer::Hangs);
            stage.start("s").await;
            while stage.services.calls_for(crashes_in) == 0 {
                stage.services.was_asked().await;
            }
            driving.kill().await;
            stage = stage.crash().await;
            let driving = stage.drive();
            stage.until("s", "live").await;
            for action in ACTIONS {
                let expected = if action == crashes_in { 2 } else { 1 };
                assert_eq!(stage.services.calls_for(action), expected, "{action} of a crash in {crashes_in}");
            }
            assert_eq!(stage.services.applied().len(), 3, "each is in effect once");
            stage.audit(SITES, "s").await;
            driving.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_silent_node_holds_is_taken_over_and_its_answer_is_late() {
    let stage = Stage::postgres().await;
    stage.provide_driven_sites().await;
    let (other_engine, other) = stage.another().await;
    let driving = stage.drive();
    stage.services.will("vercel_creating", Answer::Hangs);
    stage.start("s").await;
    while stage.services.calls_for("vercel_creating") == 0 {
        stage.services.was_asked().await;
    }
    // It stands still: nothing is renewed.
    driving.kill().await;
    let driving = drive(&other);
    stage.until("s", "live").await;
    assert_eq!(stage.services.calls_for("vercel_creating"), 2);
    stage.audit(SITES, "s").await;
    driving.stop().await;
    drop(other);
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_never_drive_one_site_at_once() {
    let stage = Stage::postgres_with_lease(LONG_LEASE).await;
    stage.provide_driven_sites().await;
    let (other_engine, other) = stage.another().await;
    let driving = [stage.drive(), drive(&other)];
    let nodes = [stage.lifecycles.clone(), other.clone()];
    for number in 0..200 {
        nodes[number % 2].start(SITES, &format!("s{number}"), Given::default()).await.unwrap();
        // Twice, on the other one: it is driven by whoever has it, and may have ended by then.
        let _ = nodes[(number + 1) % 2].start(SITES, &format!("s{number}"), Given::default()).await;
    }
    for number in 0..200 {
        stage.until(&format!("s{number}"), "live").await;
    }
    assert_eq!(stage.services.most_at_once(), 1);
    assert_eq!(stage.services.calls().len(), 600, "nothing is done twice");
    for driving in driving {
        driving.stop().await;
    }
    drop((nodes, other));
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_under_way_for_longer_than_the_lease_stays_with_its_node() {
    let stage = Stage::postgres_with_lease(LONG_LEASE).await;
    stage.provide_driven_sites().await;
    let (other_engine, other) = stage.another().await;
    let driving = [stage.drive(), drive(&other)];
    stage.services.will("source_resolving", Answer::Hangs);
    stage.start("s").await;
    stage.services.was_asked().await;
    let expiries = async || stage.texts("select due_at::text from lifecycles where key = 's'").await;
    let mut latest = expiries().await;
    // Together, four renewals last longer than the lease.
    for _ in 0..4 {
        while expiries().await == latest {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        latest = expiries().await;
    }
    assert_eq!(stage.services.calls_for("source_resolving"), 1, "it is renewed");
    stage.lifecycles.transition(SITES, "s", PATH[2], None).await.unwrap();
    stage.until("s", "live").await;
    for driving in driving {
        driving.kill().await;
    }
    drop(other);
    other_engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_ends_every_process_is_given_up() {
    let mut stage = Stage::sqlite().await;
    stage.provide_driven_sites().await;
    for _ in 0..8 {
        stage.services.will("source_resolving", Answer::Hangs);
    }
    stage.start("s").await;
    for _ in 0..5 {
        let driving = stage.drive();
        stage.services.was_asked().await;
        driving.kill().await;
        stage = stage.crash().await;
    }
    let driving = stage.drive();
    stage.until("s", "failed").await;
    let failure = stage.get("s").await.instance.failure.unwrap();
    assert!(failure.message.contains("processes went away"), "{failure:?}");
    driving.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_lets_what_is_under_way_end_and_begins_nothing_more() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        for number in 0..50 {
            stage.start(&format!("s{number}")).await;
        }
        driving.stop().await;
        let calls = stage.services.calls().len();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(stage.services.calls().len(), calls);
        let held = stage.texts("select key from lifecycles where holder is not null").await;
        assert_eq!(held, Vec::<String>::new(), "whatever was not begun is given back");
        let waiting = stage.texts("select key from lifecycles where due_at is not null").await.len();
        let live = stage.texts("select key from lifecycles where state = 'live'").await.len();
        assert_eq!(waiting + live, 50, "nothing is lost");
    }
}
