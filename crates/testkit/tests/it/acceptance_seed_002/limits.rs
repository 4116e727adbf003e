//! What performs how, and what to mind.

use std::sync::{Arc, Mutex};

use backstitch::{Context, Cursor, Filter, Resolution, STUCK_AFTER, Saga, Status, Step, StepStatus, Undo};
use serde_json::Value;

use crate::acceptance_seed_002::stage::{
    Trace, ended, hanging, log, ms, names, noting, on_every_store, refusing, start, stubborn,
};

#[tokio::test(flavor = "multi_thread")]
async fn s002_performance_4_new_process_adopts_active_sagas() {
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
async fn s002_limits_2_failed_compensation_waits_for_an_operator() {
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
async fn s002_limits_3_running_rollback_is_visible() {
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
async fn s002_limits_4_sagas_beyond_the_limit_wait_and_complete() {
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
