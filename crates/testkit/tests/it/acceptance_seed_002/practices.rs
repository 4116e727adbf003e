//! Best practices.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use backstitch::kernel::saga::draft;
use backstitch::testing::assert_unwinds_from_every_step;
use backstitch::{Context, Defaults, Draft, Engine, Retry, Saga, Status, Step, StepError, Undo, secs};
use serde_json::{Value, json};

use crate::acceptance_seed_002::stage::{Trace, ended, execute, ms, noting, on_every_store, refusing};

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_1_a_compensation_is_retried_until_it_is_done() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let undone = trace.clone();
        let user = noting("create-user", &trace).compensate(move |ctx, _: Undo<String>| {
            undone.say(format!("delete, attempt {}", ctx.attempt()));
            async move { if ctx.attempt() < 3 { Err(StepError::not_done("locked").into()) } else { Ok(()) } }
        });
        let user = user.compensation_retry(Retry::fixed(5, ms(1)));
        let saga = Saga::builder("s").step(user).step(refusing("no", &Trace::default())).build().unwrap();
        assert_eq!(stage.run(saga).await.status, Status::Compensated);
        let expected = ["do create-user", "delete, attempt 1", "delete, attempt 2", "delete, attempt 3"];
        assert_eq!(trace.said(), expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_1_compensation_can_be_tested_as_idempotent() {
    let users = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
    let saga = || {
        let (creating, deleting) = (users.clone(), users.clone());
        let create = Step::new("create-user", move |_: Context<String>| {
            creating.lock().unwrap().insert("ada".to_owned(), 1);
            async { Ok("ada".to_owned()) }
        });
        let create = create.compensate(move |_, _: Undo<String>| {
            deleting.lock().unwrap().remove("ada");
            async { Ok(()) }
        });
        let greet = Step::new("greet", |_: Context<String>| async { Ok(()) });
        Saga::builder("new-user").step(create).step(greet).build().unwrap()
    };
    assert_unwinds_from_every_step(saga, "ada", |report| {
        let left = std::mem::take(&mut *users.lock().unwrap());
        assert_eq!(left.len(), usize::from(report.ended.succeeded()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_2_step_reads_input_and_earlier_results() {
    on_every_store(async |stage| {
        let create =
            |ctx: Context<Value>| async move { Ok(json!({"orderId": 7, "amount": ctx.input()["amount"]})) };
        let pay = |ctx: Context<Value>| async move {
            let order: Value = ctx.result("create-order")?;
            Ok(json!({"paymentId": format!("{}-{}", order["orderId"], order["amount"])}))
        };
        let confirm = |ctx: Context<Value>| async move {
            let (order, payment): (Value, Value) =
                (ctx.result("create-order")?, ctx.result("process-payment")?);
            Ok(format!("{} {} {}", ctx.input()["userEmail"], order["orderId"], payment["paymentId"]))
        };
        let saga = Saga::builder("order-processing")
            .step(Step::new("create-order", create))
            .step(Step::new("process-payment", pay))
            .step(Step::new("send-confirmation", confirm));
        let engine = stage.engine(saga.build().unwrap()).await;
        let input = json!({"amount": 42, "userEmail": "ada@example.org"});
        let ended = ended(engine.start("order-processing", &input).await.unwrap()).await;
        let text: String = ended.result("send-confirmation").unwrap();
        assert_eq!(text, "\"ada@example.org\" 7 \"7-42\"");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_3_on_failure_distinguishes_error_codes() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let told = trace.clone();
        let fails = Step::new("step2", |ctx: Context<Value>| async move {
            let error = StepError::refused("broken");
            let code = ctx.input().as_str().map(str::to_owned);
            Err::<(), _>(code.map_or(error.clone(), |code| error.with_code(code)).into())
        });
        let saga = Saga::builder("critical").step(noting("step1", &Trace::default())).step(fails);
        let saga = saga.on_failure(move |ended| {
            told.say(match ended.error.unwrap().code.as_deref() {
                Some("NETWORK_ERROR") => "schedule a retry",
                Some("VALIDATION_ERROR") => "notify the user",
                _ => "alert the operators",
            });
            async { Ok(()) }
        });
        let engine = stage.engine(saga.build().unwrap()).await;
        for (code, measure) in [
            (json!("NETWORK_ERROR"), "schedule a retry"),
            (json!("VALIDATION_ERROR"), "notify the user"),
            (Value::Null, "alert the operators"),
        ] {
            ended(engine.start("critical", &code).await.unwrap()).await;
            trace.wait_for(measure).await;
        }
    })
    .await;
}

#[test]
fn s002_practice_4_defaults_match_and_can_be_set() {
    let step =
        || Step::new("a", |_: Context<Value>| async { Ok(()) }).compensate(|_, _: Undo<()>| async { Ok(()) });
    let plain = Saga::builder("s").step(step()).build().unwrap();
    let plain_step = &plain.definition().steps()[0];
    assert_eq!(plain_step.timeout, secs(60));
    assert_eq!(plain_step.retry, Retry::fixed(2, secs(5)));
    assert_eq!(plain_step.compensation.as_ref().unwrap().timeout, secs(120));
    assert!(!plain.definition().continues_past_failed_compensation());
    assert_eq!(draft::default_compensation_retry().count, 5);
    let set = Saga::builder("s")
        .step_timeout(secs(1))
        .compensation_timeout(secs(2))
        .retry(Retry::fixed(9, secs(3)))
        .continue_on_compensation_failure(true)
        .step(step())
        .build()
        .unwrap();
    let set_step = &set.definition().steps()[0];
    assert_eq!((set_step.timeout, set_step.retry.count), (secs(1), 9));
    assert_eq!(set_step.compensation.as_ref().unwrap().timeout, secs(2));
    assert!(set.definition().continues_past_failed_compensation());
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_4_state_is_persisted_except_in_memory() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = || Saga::builder("s").step(noting("a", &trace)).build().unwrap();
        let engine = stage.engine(saga()).await;
        let id = execute(&engine, "s").await.id;
        engine.shutdown().await.unwrap();
        let engine = stage.open().await;
        let state = engine.load(id).await.unwrap().unwrap();
        assert_eq!(state.status, Status::Succeeded);
        assert_eq!(state.result::<String>("a").unwrap(), "a done");
    })
    .await;
    let saga = Saga::builder("s").step(noting("a", &Trace::default())).build().unwrap();
    let engine = Engine::in_memory().await.unwrap();
    engine.register(saga).unwrap();
    let id = execute(&engine, "s").await.id;
    drop(engine);
    assert!(Engine::in_memory().await.unwrap().load(id).await.unwrap().is_none());
}

/// The definition as the engine registered it.
async fn registered(engine: &Engine, saga: Saga) -> Draft {
    let name = saga.definition().name().to_owned();
    engine.register(saga).unwrap();
    execute(engine, &name).await;
    engine.draft(&name, None).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_4_engine_defaults_serve_sagas_that_do_not_say() {
    let defaults = Defaults {
        step_timeout: Some(secs(11)),
        retry: Some(Retry::fixed(4, secs(3))),
        compensation_timeout: Some(secs(22)),
        compensation_retry: Some(Retry::fixed(6, secs(5))),
        continue_on_compensation_failure: Some(true),
        deadline_in: None,
    };
    on_every_store(async |stage| {
        let engine = stage.open_with(|options| options.defaults = defaults.clone()).await;
        let step = || {
            let step = Step::new("a", |_: Context<Value>| async { Ok(()) });
            step.compensate(|_, _: Undo<()>| async { Ok(()) })
        };
        let silent = registered(&engine, Saga::builder("silent").step(step()).build().unwrap()).await;
        let undo = silent.steps[0].compensate.as_ref().unwrap();
        assert_eq!((silent.steps[0].timeout, &silent.steps[0].retry), (secs(11), &Retry::fixed(4, secs(3))));
        assert_eq!((undo.timeout, &undo.retry), (secs(22), &Retry::fixed(6, secs(5))));
        assert!(silent.continue_on_compensation_failure);
        let said = Saga::builder("said")
            .step_timeout(secs(1))
            .continue_on_compensation_failure(false)
            .compensation_retry(Retry::none())
            .step(step().retry(Retry::none()).compensation_timeout(secs(2)));
        let said = registered(&engine, said.build().unwrap()).await;
        let undo = said.steps[0].compensate.as_ref().unwrap();
        assert_eq!((said.steps[0].timeout, &said.steps[0].retry), (secs(1), &Retry::none()));
        assert_eq!((undo.timeout, &undo.retry), (secs(2), &Retry::none()));
        assert!(!said.continue_on_compensation_failure);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_4_engine_deadline_is_the_default() {
    on_every_store(async |stage| {
        let defaults = Defaults { deadline_in: Some(secs(600)), ..Defaults::default() };
        let engine = stage.open_with(|options| options.defaults = defaults).await;
        engine.register(Saga::builder("s").step(noting("a", &Trace::default())).build().unwrap()).unwrap();
        let start = |key: &'static str| engine.start("s", &Value::Null).key(key);
        let silent = start("silent").await.unwrap();
        let again = start("silent").await.unwrap();
        assert_eq!(silent.id(), again.id(), "the default is no part of the request");
        let silent = ended(silent).await;
        assert_eq!(silent.deadline, Some(silent.created_at.plus(secs(600))));
        let said = ended(start("said").deadline_in(secs(60)).await.unwrap()).await;
        assert_eq!(said.deadline, Some(said.created_at.plus(secs(60))));
    })
    .await;
}

#[tokio::test]
async fn s002_practice_4_wrong_defaults_are_refused_by_name() {
    let defaults = Defaults {
        step_timeout: Some(secs(0)),
        compensation_retry: Some(Retry::fixed(1_000_000, secs(1))),
        deadline_in: Some(secs(0)),
        ..Defaults::default()
    };
    let options = backstitch::Options { defaults, ..backstitch::Options::default() };
    let Err(refused) = Engine::in_memory_with(options).await else { panic!("they are taken") };
    for name in ["defaults.step_timeout", "defaults.compensation_retry", "defaults.deadline_in"] {
        assert!(refused.to_string().contains(name), "{refused}");
    }
}
