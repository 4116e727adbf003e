//! Using it.

use std::sync::Arc;

use backstitch::{Context, Event, Retry, Saga, Step, StepError, secs};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::acceptance_seed_002::stage::{
    Trace, ended, execute, log, ms, noting, on_every_store, refusing, start,
};

#[tokio::test(flavor = "multi_thread")]
async fn s002_usage_saga_is_built_executed_and_returns_its_status() {
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
async fn s002_usage_orchestrator_registers_executes_and_emits_events() {
    on_every_store(async |stage| {
        let trace = Trace::default();
        let saga = Saga::builder("create-dev-team").step(noting("po", &trace)).step(refusing("dev", &trace));
        let engine = stage.engine(saga.build().unwrap()).await;
        let mut told = Box::pin(engine.events());
        let result = execute(&engine, "create-dev-team").await;
        assert_eq!(result.failed_step.unwrap().as_str(), "dev");
        assert_eq!(result.error.unwrap().message, "no");
        let mut names = Vec::new();
        while names.last() != Some(&"saga.compensated") {
            names.push(told.next().await.unwrap().recorded.event.name());
        }
        let forward = ["saga.started", "step.started", "step.succeeded", "step.started", "step.failed"];
        let back = ["saga.compensating", "step.compensating", "step.compensated", "saga.compensated"];
        assert_eq!(names, [&forward[..], &back[..]].concat());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s002_dependencies_hold_and_independent_steps_are_parallel() {
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
            async { Err::<(), _>(StepError::not_done("API call failed").into()) }
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
