//! Actions that the engine performs.

use std::time::Duration;

use backstitch::{Payload, StepError};
use backstitch_modules::lifecycles::sites::PATH;
use backstitch_modules::lifecycles::{Builder, Event, Given};

use crate::lifecycles::services::Answer;
use crate::lifecycles::stage::{SITES, Stage, drive, lifecycles_at_once};

const ACTIONS: [&str; 3] = ["source_resolving", "vercel_creating", "hook_creating"];

#[tokio::test(flavor = "multi_thread")]
async fn a_site_is_driven_from_its_start_to_its_end() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        stage.services.will("source_resolving", Answer::Gives(r#"{"repo":"docs"}"#));
        let given = Given {
            correlation_id: Some("c".to_owned()),
            input: Some(Payload::parse(r#"{"plan":1}"#).unwrap()),
        };
        let started = stage.lifecycles.start(SITES, "s", given).await.unwrap();
        assert_eq!(
            &*started.standing.instance.state, "source_resolving",
            "what is only passed is passed at once"
        );
        stage.until("s", "live").await;
        let calls = stage.services.calls();
        assert_eq!(calls.iter().map(|call| &*call.state).collect::<Vec<_>>(), ACTIONS);
        let keys: std::collections::BTreeSet<_> = calls.iter().map(|call| &call.idempotency_key).collect();
        assert_eq!(keys.len(), 3, "each action has a key of its own");
        let body: serde_json::Value = calls[1].body.decode().unwrap();
        assert_eq!(body["results"]["source_resolving"]["repo"], "docs", "what came of states before is told");
        assert_eq!((&body["input"]["plan"], &body["correlation_id"]), (&1.into(), &"c".into()));
        assert_eq!(stage.log("s").await.len(), 8, "one event a state");
        stage.audit(SITES, "s").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unparsed_response_is_marked_in_the_log() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        stage.services.will("source_resolving", Answer::GivesText("<p>found</p>"));
        let driving = stage.drive();
        stage.start("s").await;
        stage.until("s", "live").await;
        let log = stage.log("s").await;
        let data = log.iter().find_map(|recorded| match &recorded.event {
            Event::Transitioned { data: Some(data), .. } => Some(data),
            _ => None,
        });
        assert_eq!(data.map(|data| (data.as_str(), data.is_unparsed())), Some(("\"<p>found</p>\"", true)));
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_waits_for_its_link_and_goes_on_when_it_is_started_again() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        let no_link = StepError::refused("link GitHub first").with_code("no_github_token");
        stage.services.will("source_resolving", Answer::Fails(no_link));
        stage.start("s").await;
        stage.until("s", "awaiting_github").await;
        assert_eq!(stage.get("s").await.instance.failure, None, "waiting is no failure");
        stage.start("s").await;
        stage.until("s", "live").await;
        let resolving: Vec<_> =
            stage.services.calls().into_iter().filter(|call| call.state == "source_resolving").collect();
        assert_eq!(resolving.len(), 2);
        assert_ne!(resolving[0].idempotency_key, resolving[1].idempotency_key, "it is another errand");
        assert_eq!(stage.get("s").await.instance.attempt, 2);
        stage.audit(SITES, "s").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_without_quota_fails_and_says_so() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        let full = StepError::refused("10 of 10 projects").with_code("quota_exceeded");
        stage.services.will("vercel_creating", Answer::Fails(full));
        stage.start("s").await;
        stage.until("s", "failed").await;
        let failure = stage.get("s").await.instance.failure.unwrap();
        assert_eq!((&*failure.kind, &*failure.message), ("quota_exceeded", "10 of 10 projects"));
        assert_eq!(stage.services.calls_for("hook_creating"), 0);
        assert!(stage.lifecycles.transition(SITES, "s", "vercel_created", None).await.is_err());
        assert_eq!(stage.state("s").await, "failed");
        stage.audit(SITES, "s").await;
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_is_made_again_under_the_same_key_until_there_are_no_more() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        for _ in 0..2 {
            stage.services.will("hook_creating", Answer::Fails(StepError::not_done("busy")));
        }
        stage.start("s").await;
        stage.until("s", "live").await;
        let calls = stage.services.calls();
        let hooks: Vec<_> = calls.iter().filter(|call| call.state == "hook_creating").collect();
        assert_eq!(hooks.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(hooks.windows(2).all(|pair| pair[0].idempotency_key == pair[1].idempotency_key));
        let retries = stage.log("s").await.into_iter().filter(|it| it.event.name() == "action.retry").count();
        assert_eq!(retries, 2);

        for _ in 0..3 {
            stage.services.will("hook_creating", Answer::Fails(StepError::not_done("busy")));
        }
        stage.start("t").await;
        stage.until("t", "failed").await;
        assert_eq!(stage.get("t").await.instance.failure.unwrap().kind, "internal");
        for key in ["s", "t"] {
            stage.audit(SITES, key).await;
        }
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_does_not_answer_in_time_is_tried_again() {
    for stage in Stage::each().await {
        let slow = crate::lifecycles::stage::endpoints();
        let endpoints = backstitch_modules::lifecycles::sites::Endpoints {
            timeout: Some(Duration::from_millis(500)),
            ..slow
        };
        stage.lifecycles.provide_sites(&endpoints).await.unwrap();
        let driving = stage.drive();
        stage.services.will("vercel_creating", Answer::Hangs);
        stage.start("s").await;
        stage.until("s", "live").await;
        let log = stage.log("s").await;
        let told = log.iter().find_map(|it| match &it.event {
            Event::ActionRetry { error, .. } => Some(error.to_string()),
            _ => None,
        });
        assert!(told.is_some_and(|told| told.contains("no answer within")), "{log:?}");
        assert_eq!(stage.services.applied().len(), 3, "two calls under one key take effect once");
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_moves_a_site_on_by_hand_makes_the_answer_of_its_action_late() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        stage.services.will("source_resolving", Answer::Hangs);
        stage.start("s").await;
        stage.services.was_asked().await;
        // A signal from outside says that it is resolved.
        stage.lifecycles.transition(SITES, "s", PATH[2], None).await.unwrap();
        stage.until("s", "live").await;
        assert_eq!(stage.services.calls_for("source_resolving"), 1);
        stage.audit(SITES, "s").await;
        driving.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_before_anybody_drove_is_driven() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        for number in 0..100 {
            stage.start(&format!("s{number}")).await;
        }
        assert!(stage.services.calls().is_empty(), "nobody drives yet");
        let driving = stage.drive();
        for number in 0..100 {
            stage.until(&format!("s{number}"), "live").await;
        }
        assert_eq!(stage.services.calls().len(), 300);
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_lasts_too_long_is_stuck() {
    for stage in Stage::each().await {
        let machine = Builder::new("slow", "waiting")
            .terminal("done")
            .edge("waiting", "done")
            .stuck_after("waiting", Duration::from_millis(1))
            .build()
            .unwrap();
        stage.declare(machine).await;
        stage.lifecycles.start("slow", "k", Given::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let stuck = stage.lifecycles.stuck(10).await.unwrap();
        assert_eq!(stuck.iter().map(|it| &*it.standing.key).collect::<Vec<_>>(), ["k"]);
        stage.lifecycles.transition("slow", "k", "done", None).await.unwrap();
        assert_eq!(stage.lifecycles.stuck(10).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_little_room_everything_is_driven_in_its_turn() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let narrow = lifecycles_at_once(&stage.engine, &stage.services, 2);
        let driving = drive(&narrow);
        for number in 0..60 {
            narrow.start(SITES, &format!("s{number}"), Given::default()).await.unwrap();
        }
        for number in 0..60 {
            stage.until(&format!("s{number}"), "live").await;
        }
        assert_eq!(stage.services.calls().len(), 180, "nothing is done twice");
        let held = stage.texts("select key from lifecycles where holder is not null").await;
        assert_eq!(held, Vec::<String>::new());
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_service_hangs_leaves_room_for_another() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let dead = Builder::new("dead", "asking")
            .terminal("done")
            .edge("asking", "done")
            .can_fail(["asking"])
            .call("asking", "http://127.0.0.1:1/", "done")
            .build()
            .unwrap();
        stage.declare(dead).await;
        let narrow = lifecycles_at_once(&stage.engine, &stage.services, 4);
        let driving = drive(&narrow);
        for number in 0..20 {
            stage.services.will("asking", Answer::Hangs);
            narrow.start("dead", &format!("d{number}"), Given::default()).await.unwrap();
        }
        for number in 0..10 {
            narrow.start(SITES, &format!("s{number}"), Given::default()).await.unwrap();
        }
        for number in 0..10 {
            stage.until(&format!("s{number}"), "live").await;
        }
        assert!(stage.services.calls_for("asking") <= 3, "{}", stage.services.calls_for("asking"));
        driving.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_no_database_holds_is_kept_as_far_as_it_can_be() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        let odd = StepError::refused(format!("nul \0 and {}", "much ".repeat(10_000))).with_code("a\0b");
        stage.services.will("vercel_creating", Answer::Fails(odd));
        stage.start("s").await;
        stage.until("s", "failed").await;
        let failure = stage.get("s").await.instance.failure.unwrap();
        assert_eq!(failure.kind, "internal");
        assert!(failure.message.contains("a\u{fffd}b") && failure.message.len() <= 4200, "{failure:?}");
        driving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_states_is_told_as_it_was_written_and_of_each_the_newest() {
    for stage in Stage::each().await {
        stage.provide_driven_sites().await;
        let driving = stage.drive();
        let no_link = StepError::refused("link GitHub first").with_code("no_github_token");
        stage.services.will("source_resolving", Answer::Fails(no_link));
        stage.start("s").await;
        stage.until("s", "awaiting_github").await;
        let odd = r#"{"n":123456789012345678901234567890,"t":1.10,"z":"\u0000"}"#;
        stage.services.will("source_resolving", Answer::Gives(odd));
        stage.start("s").await;
        stage.until("s", "live").await;
        let calls = stage.services.calls();
        let hook = calls.iter().find(|call| call.state == "hook_creating").unwrap();
        assert!(hook.body.as_str().contains(odd), "{}", hook.body.as_str());
        driving.stop().await;
    }
}
