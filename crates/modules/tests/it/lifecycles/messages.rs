//! One message a transition, through the outbox.

use backstitch_modules::lifecycles::sites::PATH;
use backstitch_modules::lifecycles::{Builder, Failure, Given};
use serde_json::{Value, json};

use crate::lifecycles::stage::{SITES, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn every_transition_is_told_once_on_a_topic_that_ends_in_the_new_state() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let given = Given { correlation_id: Some("c".to_owned()), input: None };
        stage.lifecycles.start(SITES, "s", given).await.unwrap();
        stage.start("s").await;
        stage.go("s", &PATH[1..]).await;
        let topics = stage.texts("select topic from outbox order by id").await;
        let expected: Vec<_> = PATH[1..].iter().map(|to| format!("sites.provisioning.{to}")).collect();
        assert_eq!(topics, expected, "starts are no transitions");
        let told = stage.texts("select payload from outbox order by id limit 1").await;
        let mut told: Value = serde_json::from_str(&told[0]).unwrap();
        let at = told.as_object_mut().unwrap().remove("at").unwrap();
        assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
        let expected = json!({
            "type": "SiteProvisionStateChanged", "machine": SITES, "key": "s", "site_id": "s",
            "from_state": PATH[0], "to_state": PATH[1], "attempt": 2, "correlation_id": "c", "error_kind": null, "seq": 3
        });
        assert_eq!(told, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_with_its_kind_and_a_refusal_is_not_told_at_all() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let failure = Failure { kind: "github_api".to_owned(), message: "rate limit".to_owned() };
        stage.lifecycles.fail(SITES, "s", failure).await.unwrap();
        assert!(stage.lifecycles.transition(SITES, "s", PATH[1], None).await.is_err());
        assert_eq!(stage.texts("select topic from outbox").await, ["sites.provisioning.failed"]);
        let told: Value = serde_json::from_str(&stage.texts("select payload from outbox").await[0]).unwrap();
        assert_eq!((&told["error_kind"], &told["to_state"]), (&json!("github_api"), &json!("failed")));
        assert!(told.get("message").is_none(), "what went wrong is not for everybody");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_to_failed_is_told_like_any_other_and_without_a_kind() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let moved = stage.lifecycles.transition(SITES, "s", "failed", None).await.unwrap();
        assert_eq!((moved.standing.ended, moved.standing.instance.failure), (true, None));
        assert_eq!(moved.events[0].event.name(), "lifecycle.transitioned");
        assert_eq!(stage.texts("select topic from outbox").await, ["sites.provisioning.failed"]);
        let told: Value = serde_json::from_str(&stage.texts("select payload from outbox").await[0]).unwrap();
        assert_eq!((&told["to_state"], &told["error_kind"]), (&json!("failed"), &json!(null)));
        stage.audit(SITES, "s").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_a_subject_has_topics_of_its_own_name() {
    for stage in Stage::each().await {
        let parcel =
            Builder::new("parcel", "packed").terminal("sent").edge("packed", "sent").build().unwrap();
        stage.declare(parcel).await;
        stage.lifecycles.start("parcel", "p", Given::default()).await.unwrap();
        stage.lifecycles.transition("parcel", "p", "sent", None).await.unwrap();
        assert_eq!(stage.texts("select topic from outbox").await, ["lifecycles.parcel.sent"]);
        let told: Value = serde_json::from_str(&stage.texts("select payload from outbox").await[0]).unwrap();
        assert_eq!((&told["type"], told.get("site_id")), (&json!("LifecycleStateChanged"), None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriber_gets_every_event_of_this_process() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let mut events = stage.lifecycles.events();
        stage.start("s").await;
        stage.go("s", &PATH[1..2]).await;
        for (seq, name) in [(1, "lifecycle.started"), (2, "lifecycle.transitioned")] {
            let event = events.next().await.unwrap().unwrap();
            assert_eq!((event.recorded.seq, event.recorded.event.name()), (seq, name));
            assert_eq!((&*event.machine, &*event.key), (SITES, "s"));
        }
    }
}
