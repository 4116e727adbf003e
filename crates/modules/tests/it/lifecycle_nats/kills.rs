//! Processes that go away in the middle. What they took is delivered again, and goes on where it stands.

use std::time::Duration;

use backstitch_modules::lifecycles::Builder;
use backstitch_modules::lifecycles::nats::Config;
use backstitch_modules::lifecycles::sites::PATH;
use futures::future::join_all;
use serde_json::json;

use crate::lifecycle_nats::broker::Broker;
use crate::lifecycle_nats::services::Answer;
use crate::lifecycle_nats::stage::{Node, SITES, Stage, eventually};

/// A process that provisions sites in steps that can each be interrupted: where the built-in machine passes a state,
/// something is done in this one.
async fn step_by_step(stage: &Stage, broker: &Broker) -> Node {
    let mut builder =
        Builder::new("site-by-step", PATH[0]).terminal("live").can_fail(PATH[..7].iter().copied());
    for states in PATH.windows(2) {
        if states[1] != "live" {
            builder = builder.state(states[1]);
        }
        builder = builder.edge(states[0], states[1]).call(states[0], "http://127.0.0.1:1/", states[1]);
    }
    let mut node = stage.node().await;
    node.declare(builder.build().unwrap()).await;
    node.drive();
    node.consume(Config { machine: "site-by-step".to_owned(), ..broker.config() });
    node
}

/// Waits until it was begun so often: as often as its message was delivered.
async fn until_begun(machine: &str, node: &Node, times: u32) {
    eventually(&format!("it is begun {times} times"), async || {
        node.get(machine, "s").await.is_some_and(|site| site.instance.attempt == times)
    })
    .await;
}

/// Kills the process while it performs the action of one state, and lets another one finish.
async fn killed_in(stage: Stage, place: &str) {
    let broker = Broker::with_stream().await;
    let first = step_by_step(&stage, &broker).await;
    stage.services.will(place, Answer::Hangs);
    stage.services.will(place, Answer::Waits);
    let sequence = broker.request(&json!({"key": "s", "correlation_id": "c"})).await;
    eventually("the action is under way", async || stage.services.calls_for(place) == [1]).await;
    first.kill().await;

    let second = step_by_step(&stage, &broker).await;
    until_begun("site-by-step", &second, 2).await;
    stage.services.release();
    broker.until_acknowledged(sequence).await;
    let site = second.get("site-by-step", "s").await.unwrap();
    assert_eq!((&*site.instance.state, site.instance.attempt), ("live", 2), "killed in {place}");
    for other in &PATH[..7] {
        let expected = if *other == place { 2 } else { 1 };
        assert_eq!(stage.services.calls_for(other), [expected], "killed in {place}: {other}");
    }
    let log = second.lifecycles.log(site.id, 0, 100).await.unwrap();
    let states: Vec<_> = log.iter().filter_map(|recorded| recorded.event.state()).collect();
    assert_eq!(states, PATH, "killed in {place}: each was entered once");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_between_any_two_states_is_finished_by_redelivery_on_sqlite() {
    join_all(PATH[..7].iter().map(|state| killed_in(Stage::sqlite(), state))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_between_any_two_states_is_finished_by_redelivery_on_postgresql() {
    let stages = join_all(PATH[..7].iter().map(|_| Stage::postgres())).await;
    join_all(stages.into_iter().zip(&PATH[..7]).map(|(stage, state)| killed_in(stage, state))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_killed_in_the_middle_resumes_at_the_state_found_and_finished_actions_are_not_repeated() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let first = stage.provisioner(broker.config()).await;
        stage.services.will("vercel_creating", Answer::Hangs);
        stage.services.will("hook_creating", Answer::Hangs);
        stage.services.will("hook_creating", Answer::Waits);
        let sequence = broker.request(&json!({"site_id": "s", "correlation_id": "c", "repo": "a/b"})).await;
        eventually("the project is being created", async || {
            stage.services.calls_for("vercel_creating") == [1]
        })
        .await;
        first.kill().await;
        let second = stage.provisioner(broker.config()).await;
        eventually("the hook is being created", async || stage.services.calls_for("hook_creating") == [1])
            .await;
        until_begun(SITES, &second, 2).await;
        second.kill().await;
        let third = stage.provisioner(broker.config()).await;
        until_begun(SITES, &third, 3).await;
        stage.services.release();
        broker.until_acknowledged(sequence).await;
        let site = third.get(SITES, "s").await.unwrap();
        assert_eq!((&*site.instance.state, site.instance.attempt), ("live", 3));
        assert_eq!(site.instance.given.correlation_id.as_deref(), Some("c"));
        let calls = ["source_resolving", "vercel_creating", "hook_creating"];
        assert_eq!(calls.map(|state| stage.services.calls_for(state)), [[1], [2], [2]]);
        third.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_finished_but_not_acknowledged_is_acknowledged_by_the_next_process() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        let first = stage.provisioner(broker.config()).await;
        stage.services.will("hook_creating", Answer::Hangs);
        let sequence = broker.request(&json!({"site_id": "s"})).await;
        eventually("the hook is being created", async || stage.services.calls_for("hook_creating") == [1])
            .await;
        first.kill().await;
        // It performs actions, and hears of no message.
        let mut second = stage.node().await;
        second.drive();
        let live = second.until(SITES, "s", "live").await;
        second.kill().await;
        assert_eq!(broker.info().await.unwrap().ack_floor.stream_sequence, 0);
        let third = stage.provisioner(broker.config()).await;
        broker.until_acknowledged(sequence).await;
        assert_eq!(third.get(SITES, "s").await.unwrap(), live, "nothing has changed");
        third.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_closes_leaves_its_messages_to_another_at_once() {
    for stage in Stage::each().await {
        let broker = Broker::with_stream().await;
        // Nobody could wait for this one.
        let config = Config { ack_wait: Duration::from_secs(3600), ..broker.config() };
        let mut first = stage.node().await;
        first.provide_sites().await;
        // It takes messages, and performs no action.
        first.consume(config.clone());
        let sequence = broker.request(&json!({"site_id": "s"})).await;
        first.until(SITES, "s", "source_resolving").await;
        first.stop().await;
        let second = stage.provisioner(config).await;
        broker.until_acknowledged(sequence).await;
        let site = second.get(SITES, "s").await.unwrap();
        // Whoever drives may have been there before the message.
        assert!(&*site.instance.state == "live" && site.instance.attempt <= 2, "{site:?}");
        second.stop().await;
    }
}
