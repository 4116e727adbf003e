//! A saga with what its definition says about it.

use backstitch::{Saga, SagaId, Status, StepId, secs};

use crate::runtime::support::*;

#[tokio::test(start_paused = true)]
async fn a_saga_is_shown_with_how_its_steps_hang_together_and_what_a_cancel_would_undo() {
    let trace = Trace::default();
    let saga = Saga::builder("s")
        .step(noting("a", &trace))
        .step(noting("b", &trace).depends_on(["a"]))
        .step(hanging("c", &trace).timeout(secs(3600)).depends_on(["a", "b"]))
        .build()
        .unwrap();
    let engine = engine_with(saga).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "c").await;
    let insight = engine.insight(run.id()).await.unwrap().unwrap();
    let plan: Vec<(&str, &[usize], bool, &str)> = insight
        .steps
        .iter()
        .map(|step| (step.id.as_str(), &*step.depends_on, step.undoable, &*step.performer))
        .collect();
    let expected: [(&str, &[usize], bool, &str); 3] =
        [("a", &[], true, "code"), ("b", &[0], true, "code"), ("c", &[0, 1], true, "code")];
    assert_eq!(plan, expected);
    let rollback = insight.rollback.unwrap();
    assert_eq!(rollback.awaited, [StepId::from("c")]);
    assert_eq!(rollback.undone, ["c", "b", "a"].map(StepId::from));
    assert_eq!(insight.seq, 6, "started, a, b, and the start of c");
    assert_eq!(insight.saga.status, Status::Running);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_has_nothing_to_cancel_and_what_is_unknown_is_not_shown() {
    let trace = Trace::default();
    let engine = engine_with(Saga::builder("s").step(noting("a", &trace)).build().unwrap()).await;
    let ended = execute(&engine, "s").await;
    let insight = engine.insight(ended.id).await.unwrap().unwrap();
    assert!(insight.rollback.is_none() && insight.saga.status == Status::Succeeded);
    assert!(engine.insight(SagaId(uuid::Uuid::nil())).await.unwrap().is_none());
}
