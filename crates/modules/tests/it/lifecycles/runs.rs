//! Start, transition and fail, as seed 004 has them.

use backstitch::Payload;
use backstitch_modules::lifecycles::sites::PATH;
use backstitch_modules::lifecycles::{Error, Event, Failure, Filter, Given, Refused};

use crate::lifecycles::stage::{SITES, Stage, refusal};

fn quota() -> Failure {
    Failure { kind: "quota_exceeded".to_owned(), message: "no more projects".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_goes_its_way_and_ends_live() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let started = stage.start("s").await;
        assert_eq!((started.from.as_deref(), &*started.standing.instance.state), (None, "requested"));
        for pair in PATH.windows(2) {
            let moved = stage.lifecycles.transition(SITES, "s", pair[1], None).await.unwrap();
            assert_eq!(moved.from.as_deref(), Some(pair[0]), "the state before is told");
            assert_eq!(&*moved.standing.instance.state, pair[1]);
        }
        assert!(stage.get("s").await.ended);
        let names: Vec<_> = stage.log("s").await.iter().map(|it| it.event.name()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!((names[0], names[7]), ("lifecycle.started", "lifecycle.transitioned"));
        stage.audit(SITES, "s").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_counts_attempts_and_leaves_the_state() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        stage.go("s", &PATH[1..4]).await;
        for attempt in 2..5 {
            let again = stage.start("s").await;
            assert_eq!(
                (again.standing.instance.attempt, &*again.standing.instance.state),
                (attempt, PATH[3])
            );
        }
        stage.audit(SITES, "s").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_correlation_id_wins() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let given = |id: &str| Given { correlation_id: Some(id.to_owned()), input: None };
        stage.start("s").await;
        stage.lifecycles.start(SITES, "s", given("first")).await.unwrap();
        let last = stage.lifecycles.start(SITES, "s", given("second")).await.unwrap();
        assert_eq!(last.standing.instance.given.correlation_id.as_deref(), Some("first"));
        assert_eq!(stage.get("s").await.instance.given.correlation_id.as_deref(), Some("first"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_left_by_a_start_and_by_nothing_else() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        stage.go("s", &["source_resolving", "awaiting_github"]).await;
        assert!(!stage.get("s").await.ended);
        for (to, why) in [
            ("source_resolving", "waits for a start"),
            ("live", "nothing leads from"),
            ("awaiting_github", "already"),
        ] {
            let refused = refusal(stage.lifecycles.transition(SITES, "s", to, None).await);
            assert!(refused.to_string().contains(why), "{refused}");
        }
        let again = stage.start("s").await;
        assert_eq!(
            (&*again.standing.instance.state, again.standing.instance.attempt),
            ("source_resolving", 2)
        );
        stage.audit(SITES, "s").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_end_is_told_it_stays() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        stage.lifecycles.fail(SITES, "s", quota()).await.unwrap();
        let before = (stage.get("s").await, stage.log("s").await);
        // The webhook of a project that was created after all.
        let late = refusal(stage.lifecycles.transition(SITES, "s", "vercel_created", None).await);
        assert!(late.to_string().contains("no non-terminal row to transition"), "{late}");
        let again = refusal(stage.lifecycles.fail(SITES, "s", quota()).await);
        assert!(matches!(again, Refused::Ended { .. }));
        let begun = refusal(stage.lifecycles.start(SITES, "s", Given::default()).await);
        assert!(matches!(begun, Refused::Ended { .. }));
        assert_eq!((stage.get("s").await, stage.log("s").await), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_kept_with_what_failed_and_with_nothing_else() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        stage.start("s").await;
        let failed = stage.lifecycles.fail(SITES, "s", quota()).await.unwrap();
        assert_eq!(failed.standing.instance.failure, Some(quota()));
        let Event::Failed { from, failure, .. } = &failed.events[0].event else { panic!("it did not fail") };
        assert_eq!((&**from, failure), ("requested", &quota()));

        stage.start("other").await;
        for unknown in ["no_such_kind", "", "Internal"] {
            let failure = Failure { kind: unknown.to_owned(), message: String::new() };
            let refused = refusal(stage.lifecycles.fail(SITES, "other", failure).await);
            assert_eq!(refused, Refused::UnknownErrorKind(unknown.to_owned()));
        }
        stage.go("other", &PATH[1..3]).await;
        let refused = refusal(stage.lifecycles.fail(SITES, "other", quota()).await);
        assert!(matches!(refused, Refused::CannotFail { .. }), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_transition_and_the_newest_input_are_kept() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        let input = |text: &str| Given { correlation_id: None, input: Some(Payload::parse(text).unwrap()) };
        stage.lifecycles.start(SITES, "s", input(r#"{"repo": "a"}"#)).await.unwrap();
        stage.lifecycles.start(SITES, "s", input(r#"{"repo": "b"}"#)).await.unwrap();
        stage.start("s").await;
        assert_eq!(stage.get("s").await.instance.given.input.unwrap().as_str(), r#"{"repo": "b"}"#);
        let data = Payload::parse(r#"{"nul": "\u0000", "deep": [1.10]}"#).unwrap();
        stage.lifecycles.transition(SITES, "s", PATH[1], Some(data.clone())).await.unwrap();
        let last = stage.log("s").await.pop().unwrap();
        assert!(matches!(last.event, Event::Transitioned { data: Some(kept), .. } if kept == data));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_so() {
    for stage in Stage::each().await {
        let lifecycles = &stage.lifecycles;
        let unknown = lifecycles.start("nothing", "k", Given::default()).await.unwrap_err();
        assert!(matches!(unknown, Error::UnknownMachine(_)), "{unknown}");
        stage.provide_sites().await;
        for error in [
            lifecycles.transition(SITES, "k", PATH[1], None).await.unwrap_err(),
            lifecycles.fail(SITES, "k", quota()).await.unwrap_err(),
            lifecycles.get(SITES, "k").await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::UnknownKey { .. }), "{error}");
        }
        stage.start("k").await;
        let state = refusal(lifecycles.transition(SITES, "k", "nowhere", None).await);
        assert_eq!(state, Refused::UnknownState("nowhere".to_owned()));
        for key in [String::new(), "a\nb".to_owned(), "x".repeat(201), "..".to_owned()] {
            let error = lifecycles.start(SITES, &key, Given::default()).await.unwrap_err();
            assert!(matches!(error, Error::Invalid { field: "key", .. }), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_narrowed_by_state_and_correlation_id_a_page_at_a_time() {
    for stage in Stage::each().await {
        stage.provide_sites().await;
        for number in 0..5 {
            let given = Given { correlation_id: Some(format!("c{}", number % 2)), input: None };
            stage.lifecycles.start(SITES, &format!("s{number}"), given).await.unwrap();
        }
        stage.go("s4", &PATH[1..2]).await;
        let keys = |page: &backstitch_modules::lifecycles::Page| {
            page.items.iter().map(|it| it.key.to_string()).collect::<Vec<_>>()
        };
        let all = Filter::default();
        let first = stage.lifecycles.list(SITES, &all, None, 3).await.unwrap();
        assert_eq!(keys(&first), ["s4", "s3", "s2"]);
        let rest = stage.lifecycles.list(SITES, &all, first.next, 3).await.unwrap();
        assert_eq!((keys(&rest), rest.next), (vec!["s1".to_owned(), "s0".to_owned()], None));
        let there = Filter { state: Some(PATH[1].to_owned()), ..Filter::default() };
        assert_eq!(keys(&stage.lifecycles.list(SITES, &there, None, 9).await.unwrap()), ["s4"]);
        let of = Filter { correlation_id: Some("c1".to_owned()), ..Filter::default() };
        assert_eq!(keys(&stage.lifecycles.list(SITES, &of, None, 9).await.unwrap()), ["s3", "s1"]);
        let counts = stage.lifecycles.counts(SITES).await.unwrap();
        let counts: Vec<_> = counts.iter().map(|it| (it.state.as_str(), it.count)).collect();
        assert_eq!(counts, [("requested", 4), ("source_resolving", 1)]);
    }
}
