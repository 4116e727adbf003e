//! The structure of a definition.

use backstitch::{Context, Retry, Saga, Status, Step, Undo, secs};
use serde_json::{Value, json};

use crate::acceptance_seed_002::stage::{
    Trace, ended, execute, hanging, ms, noting, on_every_store, refusing, stubborn,
};

#[test]
fn s002_definition_takes_every_field_of_the_structure() {
    let step = Step::new("design-schema", |_: Context<Value>| async { Ok(()) })
        .title("Design DB Schema")
        .compensate(|_, _: Undo<()>| async { Ok(()) })
        .timeout(secs(30))
        .retry(Retry::fixed(2, secs(1)))
        .depends_on(Vec::<String>::new());
    let saga = Saga::builder("create-user-feature")
        .title("Create User Feature")
        .step(step)
        .on_failure(|_| async { Ok(()) })
        .on_success(|_| async { Ok(()) })
        .continue_on_compensation_failure(false)
        .compensation_timeout(secs(60))
        .metadata(&json!({"team": "core"}))
        .build()
        .unwrap();
    let written = serde_json::to_value(saga.definition().draft()).unwrap();
    assert_eq!(written["name"], "create-user-feature");
    assert_eq!(written["title"], "Create User Feature");
    assert_eq!(written["metadata"]["team"], "core");
    assert_eq!(written["continue_on_compensation_failure"], false);
    assert_eq!((&written["on_success"], &written["on_failure"]), (&json!(true), &json!(true)));
    let step = &written["steps"][0];
    assert_eq!((&step["id"], &step["title"]), (&json!("design-schema"), &json!("Design DB Schema")));
    assert_eq!((&step["timeout"], &step["depends_on"]), (&json!("30s"), &json!([])));
    assert_eq!((&step["retry"]["count"], &step["retry"]["delay"]), (&json!(2), &json!("1s")));
    assert_eq!(step["compensate"]["timeout"], "1m");
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_definition_compensation_gets_context_result_and_error() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let seen = trace.clone();
        let step = Step::new("a", |ctx: Context<Value>| async move { Ok(ctx.attempt()) });
        let step = step.compensate(move |ctx, undo: Undo<u32>| {
            let error = undo.error.code.unwrap_or_default();
            seen.say(format!("{} {:?} {error} {}", ctx.input(), undo.result, undo.failed_step.unwrap()));
            async { Ok(()) }
        });
        let saga = Saga::builder("s").step(step).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        ended(engine.start("s", &json!({"user": 1})).await.unwrap()).await;
        assert_eq!(trace.said(), ["do no", "{\"user\":1} Some(1) NOPE no"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_definition_on_success_gets_the_saga_and_its_results() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let told = trace.clone();
        let saga = Saga::builder("s").step(noting("a", &trace)).on_success(move |ended| {
            told.say(format!("{} {}", ended.status, ended.result::<String>("a").unwrap()));
            async { Ok(()) }
        });
        let engine = stage.engine(saga.build().unwrap()).await;
        execute(&engine, "s").await;
        trace.wait_for("succeeded a done").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_definition_on_failure_gets_saga_step_and_error() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let told = trace.clone();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace));
        let saga = saga.on_failure(move |ended| {
            let (step, error) = (ended.failed_step.unwrap(), ended.error.unwrap());
            told.say(format!("{} {step} {error}", ended.status));
            async { Ok(()) }
        });
        let engine = stage.engine(saga.build().unwrap()).await;
        execute(&engine, "s").await;
        trace.wait_for("compensated no NOPE: no").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_definition_continue_on_compensation_failure_is_applied() {
    on_every_store(async |stage| {
        for goes_on in [false, true] {
            let trace = Trace::default();
            let saga = Saga::builder(format!("s{goes_on}"))
                .continue_on_compensation_failure(goes_on)
                .step(noting("a", &trace))
                .step(stubborn("b", &trace))
                .step(refusing("no", &trace));
            let ended = stage.run(saga.build().unwrap()).await;
            assert_eq!(ended.status, Status::Failed);
            assert_eq!(trace.said().contains(&"undo a a done".to_owned()), goes_on);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_definition_timeouts_end_attempts() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let undone = trace.clone();
        let stuck = noting("a", &trace).compensate(move |ctx, _: Undo<String>| {
            undone.say("undo a");
            async move { if ctx.attempt() == 1 { std::future::pending().await } else { Ok(()) } }
        });
        let saga = Saga::builder("s")
            .compensation_timeout(ms(30))
            .compensation_retry(Retry::fixed(1, ms(1)))
            .step(stuck)
            .step(hanging("b", &trace).timeout(ms(30)).retry(Retry::fixed(1, ms(1))));
        let ended = stage.run(saga.build().unwrap()).await;
        assert_eq!(ended.status, Status::Compensated);
        assert_eq!(trace.said(), ["do a", "do b", "do b", "undo a", "undo a"]);
        assert!(ended.error.unwrap().message.contains("no answer within 30 ms"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_metadata_is_in_the_context_the_hooks_and_the_state() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let step =
            Step::new("a", |ctx: Context<Value>| async move { Ok(ctx.metadata::<Value>()?["team"].clone()) });
        let (undone, told) = (trace.clone(), trace.clone());
        let step = step.compensate(move |ctx, _: Undo<Value>| {
            undone.say(format!("undo {}", ctx.metadata::<Value>().unwrap()["team"]));
            async { Ok(()) }
        });
        let saga = || {
            let builder = Saga::builder("s").metadata(&json!({"team": "core"}));
            builder.step(noting("none", &trace))
        };
        let told_team = move |saga: backstitch::SagaState| {
            told.say(format!("hook {}", saga.metadata::<Value>().unwrap()["team"]));
            async { Ok(()) }
        };
        let engine = stage
            .engine(saga().step(step).step(refusing("no", &trace)).on_failure(told_team).build().unwrap())
            .await;
        let end = execute(&engine, "s").await;
        assert_eq!(end.result::<String>("a").unwrap(), "core");
        trace.wait_for("undo \"core\"").await;
        trace.wait_for("hook \"core\"").await;
        engine.shutdown().await.unwrap();
        // Without the code of the saga, too.
        let state = stage.open().await.load(end.id).await.unwrap().unwrap();
        assert_eq!(state.metadata::<Value>().unwrap(), json!({"team": "core"}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_a_saga_without_metadata_reads_null() {
    on_every_store(async |stage| {
        let step =
            Step::new("a", |ctx: Context<Value>| async move { Ok(ctx.metadata::<Option<u32>>()?.is_none()) });
        let end = stage.run(Saga::builder("s").step(step).build().unwrap()).await;
        assert!(end.result::<bool>("a").unwrap());
        assert_eq!(end.metadata, None);
    })
    .await;
}
