//! Core concepts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use backstitch::{Context, Saga, Status, Step, Undo};
use serde_json::Value;

use crate::acceptance_seed_002::stage::{Trace, noting, on_every_store, refusing};

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
async fn s002_core_failure_undoes_earlier_steps_in_reverse() {
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
