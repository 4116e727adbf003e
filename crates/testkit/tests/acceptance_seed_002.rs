//! The saga library against its requirements, clause by clause, on memory, `SQLite` and `PostgreSQL`.

mod stage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use backstitch::kernel::saga::draft;
use backstitch::testing::assert_unwinds_from_every_step;
use backstitch::{
    Context, Cursor, Engine, Event, Filter, Resolution, Retry, STUCK_AFTER, Saga, Status, Step, StepError,
    StepStatus, Undo, secs,
};
use futures::StreamExt;
use serde_json::{Value, json};
use stage::{
    Trace, ended, eventually, execute, hanging, log, ms, names, noting, on_every_store, refusing, start,
    stubborn,
};

// Core concepts.

#[tokio::test(flavor = "multi_thread")]
async fn s002_core_a_saga_runs_its_steps_and_records_each_result() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(noting("b", &trace)).build().unwrap();
        let ended = stage.run(saga).await;
        assert_eq!(ended.status, Status::Succeeded);
        assert_eq!(trace.said(), ["do a", "do b"]);
        let results: Vec<String> = ["a", "b"].map(|step| ended.result(step).unwrap()).into();
        assert_eq!(results, ["a done", "b done"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_core_a_failure_stops_later_steps_and_undoes_the_earlier_ones_in_reverse() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s")
            .step(noting("a", &trace))
            .step(noting("b", &trace))
            .step(refusing("c", &trace))
            .step(noting("d", &trace));
        let ended = stage.run(saga.build().unwrap()).await;
        assert_eq!(ended.status, Status::Compensated);
        assert_eq!(trace.said(), ["do a", "do b", "do c", "undo b b done", "undo a a done"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_core_a_rollback_leaves_the_world_as_it_was() {
    on_every_store(async |stage| {
        let world = Arc::new(Mutex::new(BTreeMap::from([("balance".to_owned(), 100)])));
        let before = world.lock().unwrap().clone();
        let (taking, giving) = (world.clone(), world.clone());
        let charge = Step::new("charge", move |_: Context<Value>| {
            *taking.lock().unwrap().get_mut("balance").unwrap() -= 30;
            async { Ok(30) }
        });
        let charge = charge.compensate(move |_, undo: Undo<i32>| {
            *giving.lock().unwrap().get_mut("balance").unwrap() += undo.result.unwrap();
            async { Ok(()) }
        });
        let saga = Saga::builder("s").step(charge).step(refusing("no", &Trace::default())).build().unwrap();
        stage.run(saga).await;
        assert_eq!(*world.lock().unwrap(), before);
    })
    .await;
}

// The structure of a definition.

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
async fn s002_definition_a_compensation_gets_the_context_the_result_and_the_error() {
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
async fn s002_definition_on_failure_gets_the_saga_the_failed_step_and_the_error() {
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
async fn s002_definition_continue_on_compensation_failure_decides_whether_the_others_are_undone() {
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
async fn s002_definition_timeouts_end_attempts_of_actions_and_compensations() {
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

// States.

#[tokio::test(flavor = "multi_thread")]
async fn s002_states_a_saga_is_seen_in_each_of_its_six_states() {
    let names = Status::ALL.map(Status::as_str);
    assert_eq!(names, ["pending", "running", "succeeded", "failed", "compensating", "compensated"]);
    on_every_store(async |stage| {
        let trace = Trace::default();
        let slow_undo = noting("slow", &trace).compensate(|_, _: Undo<String>| std::future::pending());
        let engine = stage.open_with(|options| options.max_active = 3).await;
        for saga in [
            Saga::builder("good").step(noting("a", &trace)),
            Saga::builder("bad").step(refusing("a", &trace)),
            Saga::builder("stuck").step(stubborn("a", &trace)).step(refusing("b", &trace)),
            Saga::builder("runs").step(hanging("a", &trace)),
            Saga::builder("undoes").step(slow_undo).step(refusing("b", &trace)),
        ] {
            engine.register(saga.build().unwrap()).unwrap();
        }
        let status = async |run: &backstitch::Run| engine.load(run.id()).await.unwrap().unwrap().status;
        assert_eq!(execute(&engine, "good").await.status, Status::Succeeded);
        assert_eq!(execute(&engine, "bad").await.status, Status::Compensated);
        assert_eq!(execute(&engine, "stuck").await.status, Status::Failed);
        let runs = [start(&engine, "runs").await, start(&engine, "runs").await];
        eventually("it runs", async || status(&runs[0]).await == Status::Running).await;
        let undoes = start(&engine, "undoes").await;
        eventually("it is undone", async || status(&undoes).await == Status::Compensating).await;
        let waits = start(&engine, "good").await;
        assert_eq!(status(&waits).await, Status::Pending, "there is no room for it yet");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_states_a_step_is_seen_in_each_of_its_states() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let slow_undo = noting("slow", &trace).compensate(|_, _: Undo<String>| std::future::pending());
        let engine = stage.open().await;
        for saga in [
            Saga::builder("runs")
                .step(noting("a", &trace))
                .step(hanging("b", &trace))
                .step(noting("c", &trace)),
            Saga::builder("undoes").step(slow_undo).step(noting("b", &trace)).step(refusing("c", &trace)),
            Saga::builder("stuck").step(stubborn("a", &trace)).step(refusing("b", &trace)),
        ] {
            engine.register(saga.build().unwrap()).unwrap();
        }
        let steps = async |run: &backstitch::Run| {
            let state = serde_json::to_value(engine.load(run.id()).await.unwrap().unwrap()).unwrap();
            let steps = state["steps"].as_array().unwrap().clone();
            steps.iter().map(|step| step["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let runs = start(&engine, "runs").await;
        eventually("b runs", async || steps(&runs).await == ["succeeded", "running", "pending"]).await;
        let undoes = start(&engine, "undoes").await;
        let expected = ["compensating", "compensated", "failed"];
        eventually("it is undone", async || steps(&undoes).await == expected).await;
        let stuck = start(&engine, "stuck").await;
        ended(stuck.clone()).await;
        assert_eq!(steps(&stuck).await, ["compensation_failed", "failed"]);
    })
    .await;
}

// Using it.

#[tokio::test(flavor = "multi_thread")]
async fn s002_usage_a_saga_is_built_executed_and_answers_with_its_status() {
    on_every_store(async |stage| {
        let migrate = |ctx: Context<Value>| async move { Ok(ctx.input()["migrationFile"].clone()) };
        let saga = Saga::builder("deploy-feature")
            .title("Deploy New Feature")
            .step(Step::new("create-branch", |ctx: Context<Value>| async move {
                Ok(json!({"branchName": ctx.input()["featureName"]}))
            }))
            .step(Step::new("update-database", migrate))
            .step(Step::new("deploy-service", |_: Context<Value>| async { Ok(json!({"deployed": true})) }));
        let engine = stage.engine(saga.build().unwrap()).await;
        let input = json!({"featureName": "user-auth", "migrationFile": "001_add_users.sql"});
        let result = ended(engine.start("deploy-feature", &input).await.unwrap()).await;
        assert_eq!(result.status.to_string(), "succeeded");
        assert_eq!(result.result::<Value>("create-branch").unwrap(), json!({"branchName": "user-auth"}));
        assert_eq!(result.result::<Value>("update-database").unwrap(), json!("001_add_users.sql"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_usage_an_orchestrator_registers_tells_events_executes_and_answers() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("create-dev-team").step(noting("po", &trace)).step(refusing("dev", &trace));
        let engine = stage.engine(saga.build().unwrap()).await;
        let told = engine.events();
        let result = execute(&engine, "create-dev-team").await;
        assert_eq!(result.failed_step.unwrap().as_str(), "dev");
        assert_eq!(result.error.unwrap().message, "no");
        let told: Vec<_> = told.take(5).map(|event| event.recorded.event.name()).collect().await;
        assert_eq!(told[0], "saga.started");
        assert!(told.contains(&"step.succeeded"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_dependencies_are_kept_and_independent_steps_run_at_the_same_time() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let meeting = Arc::new(tokio::sync::Barrier::new(2));
        let meet = |id: &'static str| {
            let (meeting, trace) = (meeting.clone(), trace.clone());
            Step::new(id, move |_: Context<Value>| {
                let (meeting, trace) = (meeting.clone(), trace.clone());
                async move {
                    meeting.wait().await;
                    trace.say(format!("do {id}"));
                    Ok(())
                }
            })
        };
        let saga = Saga::builder("complex-feature")
            .step(noting("design-architecture", &trace))
            .step(noting("design-database", &trace).depends_on(["design-architecture"]))
            .step(meet("implement-backend").depends_on(["design-database"]))
            .step(meet("implement-frontend").depends_on(["design-architecture"]))
            .step(noting("run-tests", &trace).depends_on(["implement-backend", "implement-frontend"]));
        assert!(stage.run(saga.build().unwrap()).await.succeeded());
        let said = trace.said();
        assert_eq!(said[..2], ["do design-architecture", "do design-database"]);
        assert_eq!(said[4], "do run-tests");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_retry_count_counts_the_attempts_after_the_first() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let noted = trace.clone();
        let call = Step::new("call-external-api", move |_: Context<Value>| {
            noted.say("call");
            async { Err::<(), _>(StepError::failed("API call failed")) }
        });
        let call = call.timeout(secs(10)).retry(Retry::fixed(3, ms(20)));
        let engine = stage.engine(Saga::builder("api-integration").step(call).build().unwrap()).await;
        let run = start(&engine, "api-integration").await;
        let log = log(&run).await;
        assert_eq!(trace.said().len(), 4);
        for recorded in &log {
            if let Event::StepRetry { retry_at, max_attempts, .. } = &recorded.event {
                assert_eq!(retry_at.since(recorded.at), ms(20));
                assert_eq!(*max_attempts, 4);
            }
        }
        let starts: Vec<_> = log.iter().filter(|it| it.event.name() == "step.started").collect();
        assert!(starts.windows(2).all(|pair| pair[1].at.since(pair[0].at) >= ms(20)), "no retry comes early");
    })
    .await;
}

// Events.

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_of_a_success_are_started_and_succeeded_for_saga_and_steps() {
    on_every_store(async |stage| {
        let engine =
            stage.engine(Saga::builder("s").step(noting("a", &Trace::default())).build().unwrap()).await;
        let log = log(&start(&engine, "s").await).await;
        assert_eq!(names(&log), ["saga.started", "step.started", "step.succeeded", "saga.succeeded"]);
        assert!(matches!(&log[2].event, Event::StepSucceeded { step, result, .. }
            if step.as_str() == "a" && result.as_str() == "\"a done\""));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_of_a_rollback_are_failed_compensating_and_compensated() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let log = log(&start(&engine, "s").await).await;
        let expected = [
            "saga.started",
            "step.started",
            "step.succeeded",
            "step.started",
            "step.failed",
            "saga.compensating",
            "step.compensating",
            "step.compensated",
            "saga.compensated",
        ];
        assert_eq!(names(&log), expected);
        assert!(matches!(&log[4].event, Event::StepFailed { step, error, .. }
            if step.as_str() == "no" && error.message == "no"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_tell_each_retry_with_its_number_and_error() {
    on_every_store(async |stage| {
        let busy = Step::new("busy", |ctx: Context<Value>| async move {
            if ctx.attempt() < 3 { Err(StepError::failed("busy")) } else { Ok(()) }
        });
        let saga = Saga::builder("s").step(busy.retry(Retry::fixed(2, ms(1)))).build().unwrap();
        let engine = stage.engine(saga).await;
        let log = log(&start(&engine, "s").await).await;
        let retries: Vec<_> = log
            .iter()
            .filter_map(|recorded| match &recorded.event {
                Event::StepRetry { step, attempt, max_attempts, error, .. } => {
                    Some(format!("{step} {attempt}/{max_attempts} {error}"))
                }
                _ => None,
            })
            .collect();
        assert_eq!(retries, ["busy 1/3 busy", "busy 2/3 busy"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_events_tell_a_failed_compensation_and_the_failed_saga() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga =
            Saga::builder("s").step(stubborn("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let log = log(&start(&engine, "s").await).await;
        assert!(log.iter().any(|recorded| matches!(&recorded.event,
            Event::StepCompensationFailed { step, error, .. }
                if step.as_str() == "a" && error.message == "it stays")));
        assert_eq!(*names(&log).last().unwrap(), "saga.failed");
    })
    .await;
}

// Best practices.

#[tokio::test(flavor = "multi_thread")]
async fn s002_practice_1_a_compensation_is_retried_until_it_is_done() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let undone = trace.clone();
        let user = noting("create-user", &trace).compensate(move |ctx, _: Undo<String>| {
            undone.say(format!("delete, attempt {}", ctx.attempt()));
            async move { if ctx.attempt() < 3 { Err(StepError::failed("locked")) } else { Ok(()) } }
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
async fn s002_practice_1_an_idempotent_compensation_can_be_proved_to_be_one() {
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
async fn s002_practice_2_a_step_reads_the_input_and_the_results_of_earlier_steps() {
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
async fn s002_practice_3_on_failure_tells_errors_apart_by_their_code() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let told = trace.clone();
        let fails = Step::new("step2", |ctx: Context<Value>| async move {
            let error = StepError::refused("broken");
            let code = ctx.input().as_str().map(str::to_owned);
            Err::<(), _>(code.map_or(error.clone(), |code| error.with_code(code)))
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
fn s002_practice_4_defaults_are_those_of_the_requirements_and_can_be_set_for_all_steps() {
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
async fn s002_practice_4_state_is_persisted_unless_the_engine_is_in_memory() {
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

// Monitoring.

#[tokio::test(flavor = "multi_thread")]
async fn s002_monitoring_all_sagas_are_listed_with_status_and_time() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let engine = stage.engine(Saga::builder("good").step(noting("a", &trace)).build().unwrap()).await;
        engine.register(Saga::builder("bad").step(refusing("a", &trace)).build().unwrap()).unwrap();
        let (good, bad) = (execute(&engine, "good").await, execute(&engine, "bad").await);
        let page = engine.list(&Filter::default(), &Cursor { before: None, limit: 10 }).await.unwrap();
        let rows: Vec<_> = page.items.iter().map(|row| (row.id, row.status, row.updated_at)).collect();
        let expected =
            [(bad.id, Status::Compensated, bad.updated_at), (good.id, Status::Succeeded, good.updated_at)];
        assert_eq!(rows, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_monitoring_one_saga_is_loaded_in_detail() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let ended = execute(&engine, "s").await;
        let state = engine.load(ended.id).await.unwrap().unwrap();
        assert_eq!(state, ended);
        let text = serde_json::to_string_pretty(&state).unwrap();
        for part in ["\"status\": \"compensated\"", "\"failed_step\": \"no\"", "\"code\": \"NOPE\""] {
            assert!(text.contains(part), "{text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_monitoring_health_counts_active_sagas_and_names_those_stuck_for_ten_minutes() {
    assert_eq!(STUCK_AFTER, secs(600));
    on_every_store(async |stage| {
        let trace = Trace::default();
        let engine = stage.engine(Saga::builder("s").step(hanging("a", &trace)).build().unwrap()).await;
        let run = start(&engine, "s").await;
        stage.clock.advance(secs(590));
        let health = engine.health(STUCK_AFTER).await.unwrap();
        assert_eq!(health.active, BTreeMap::from([(Status::Running, 1)]));
        assert!(health.stuck.is_empty());
        stage.clock.advance(secs(20));
        let health = engine.health(STUCK_AFTER).await.unwrap();
        assert_eq!(health.stuck.iter().map(|row| row.id).collect::<Vec<_>>(), [run.id()]);
    })
    .await;
}

// What performs how, and what to mind.

#[tokio::test(flavor = "multi_thread")]
async fn s002_performance_4_a_new_process_takes_up_what_was_under_way() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = |hangs: bool| {
            let b = if hangs { hanging("b", &trace) } else { noting("b", &trace) };
            // What can be undone belongs to the version, so both have a compensation.
            let b = b.compensate(|_, _| async { Ok(()) });
            Saga::builder("s").step(noting("a", &trace)).step(b).build().unwrap()
        };
        let engine = stage.open_with(|options| options.grace = ms(10)).await;
        engine.register(saga(true)).unwrap();
        let id = start(&engine, "s").await.id();
        trace.wait_for("do b").await;
        engine.shutdown().await.unwrap();
        let engine = stage.engine(saga(false)).await;
        assert!(ended(engine.find(id).await.unwrap()).await.succeeded());
        assert_eq!(trace.said(), ["do a", "do b", "do b"], "what was finished is not done again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_limits_1_a_compensation_is_an_operation_of_its_own() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let run = start(&engine, "s").await;
        let log = log(&run).await;
        let names = names(&log);
        assert!(names.contains(&"step.succeeded"), "what was done stays in the log");
        assert!(names.contains(&"step.compensated"));
        let state = engine.load(run.id()).await.unwrap().unwrap();
        assert_eq!(state.result::<String>("a").unwrap(), "a done", "and so does its result");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_limits_2_a_compensation_that_fails_waits_for_a_person_who_can_resolve_it() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("s")
            .step(noting("a", &trace))
            .step(stubborn("b", &trace))
            .step(refusing("no", &trace));
        let engine = stage.engine(saga.build().unwrap()).await;
        let run = start(&engine, "s").await;
        let state = ended(run.clone()).await;
        assert_eq!((state.status, state.stuck()[0].as_str()), (Status::Failed, "b"));
        assert_eq!(engine.health(STUCK_AFTER).await.unwrap().active[&Status::Failed], 1);
        engine.resolve(run.id(), "b", Resolution::Done, "undone by hand").await.unwrap();
        let state = ended(run).await;
        assert_eq!(state.status, Status::Compensated);
        assert_eq!(state.step("a").unwrap().status, StepStatus::Compensated);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_limits_3_a_rollback_under_way_can_be_seen() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let (held, undone) = (gate.clone(), trace.clone());
        let a = noting("a", &trace).compensate(move |_, _: Undo<String>| {
            let held = held.clone();
            undone.say("undo a");
            async move {
                held.acquire().await?.forget();
                Ok(())
            }
        });
        let saga = Saga::builder("s").step(a).step(refusing("no", &trace)).build().unwrap();
        let engine = stage.engine(saga).await;
        let run = start(&engine, "s").await;
        trace.wait_for("undo a").await;
        let filter = Filter { status: Some(Status::Compensating), ..Filter::default() };
        let page = engine.list(&filter, &Cursor { before: None, limit: 10 }).await.unwrap();
        assert_eq!(page.items.iter().map(|row| row.id).collect::<Vec<_>>(), [run.id()]);
        assert_eq!(page.items[0].failed_step.as_ref().unwrap().as_str(), "no");
        gate.add_permits(1);
        assert_eq!(ended(run).await.status, Status::Compensated);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_limits_4_too_many_sagas_at_once_wait_and_none_is_lost() {
    on_every_store(async |stage| {
        let inside = Arc::new(Mutex::new((0_usize, 0_usize)));
        let counted = inside.clone();
        let step = Step::new("a", move |_: Context<Value>| {
            let inside = counted.clone();
            async move {
                {
                    let mut inside = inside.lock().unwrap();
                    inside.0 += 1;
                    inside.1 = inside.1.max(inside.0);
                }
                tokio::time::sleep(ms(1)).await;
                inside.lock().unwrap().0 -= 1;
                Ok(())
            }
        });
        let engine = stage.open_with(|options| options.max_active = 4).await;
        engine.register(Saga::builder("s").step(step).build().unwrap()).unwrap();
        let mut runs = Vec::new();
        for _ in 0..100 {
            runs.push(start(&engine, "s").await);
        }
        for run in runs {
            assert!(ended(run).await.succeeded());
        }
        assert!(inside.lock().unwrap().1 <= 4);
    })
    .await;
}
