//! States.

use backstitch::{Saga, Status, StepResult, Undo};

use crate::acceptance_seed_002::stage::{
    Trace, ended, eventually, execute, hanging, noting, on_every_store, refusing, start, stubborn,
};

#[tokio::test(flavor = "multi_thread")]
async fn s002_states_a_saga_is_seen_in_each_of_its_six_states() {
    let names = Status::ALL.map(Status::as_str);
    assert_eq!(names, ["pending", "running", "succeeded", "failed", "compensating", "compensated"]);
    on_every_store(async |stage| {
        let trace = Trace::default();
        let slow_undo =
            noting("slow", &trace).compensate(|_, _: Undo<String>| std::future::pending::<StepResult<()>>());
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
        let slow_undo =
            noting("slow", &trace).compensate(|_, _: Undo<String>| std::future::pending::<StepResult<()>>());
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
