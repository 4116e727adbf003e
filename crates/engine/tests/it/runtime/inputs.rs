//! What a start takes and what it refuses.

use std::collections::HashMap;

use backstitch::{Context, Error, ErrorKind, MAX_ATTRIBUTES, MAX_LABEL, Saga, Status, Step};

use crate::runtime::support::*;

async fn engine() -> backstitch::Engine {
    let saga = Saga::builder("s").step(noting("a", &Trace::default())).build().unwrap();
    Bench::with(|options| options.max_payload = 1000).open_with(saga).await
}

#[tokio::test(start_paused = true)]
async fn an_unknown_saga_cannot_be_started() {
    let refused = engine().await.start("t", &()).await.err().unwrap();
    assert!(matches!(&refused, Error::UnknownDefinition(name) if name == "t"));
    assert!(refused.to_string().contains("Engine::register"));
}

#[tokio::test(start_paused = true)]
async fn an_input_without_a_json_form_is_refused() {
    let input = HashMap::from([((1, 2), 3)]);
    assert!(matches!(engine().await.start("s", &input).await, Err(Error::BadInput(_))));
}

#[tokio::test(start_paused = true)]
async fn an_input_that_is_too_large_is_refused() {
    let engine = engine().await;
    let refused = engine.start("s", &"x".repeat(999)).await;
    assert!(matches!(refused, Err(Error::InputTooLarge { size: 1001, limit: 1000 })));
    assert!(engine.start("s", &"x".repeat(998)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn labels_that_are_too_long_are_refused() {
    let engine = engine().await;
    let long = "x".repeat(MAX_LABEL + 1);
    let too_long = |started: Result<_, Error>| matches!(started, Err(Error::TooLong { .. }));
    assert!(too_long(engine.start("s", &()).key(&long).await));
    assert!(too_long(engine.start("s", &()).correlation_id(&long).await));
    assert!(too_long(engine.start("s", &()).attribute(&long, "v").await));
    assert!(too_long(engine.start("s", &()).attribute("n", &long).await));
    let mut many = engine.start("s", &());
    for number in 0..=MAX_ATTRIBUTES {
        many = many.attribute(number.to_string(), "v");
    }
    assert!(too_long(many.await));
    assert!(engine.start("s", &()).key("x".repeat(MAX_LABEL)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn labels_that_say_nothing_or_not_every_store_holds_are_refused() {
    let engine = engine().await;
    let bad = |started: Result<_, Error>| match started {
        Err(error @ Error::BadName { .. }) => !error.to_string().contains("JSON"),
        _ => false,
    };
    for label in ["", "a\0b"] {
        assert!(bad(engine.start("s", &()).key(label).await));
        assert!(bad(engine.start("s", &()).correlation_id(label).await));
        assert!(bad(engine.start("s", &()).attribute(label, "value").await));
    }
    assert!(bad(engine.start("s", &()).attribute("name", "a\0b").await));
    assert!(engine.start("s", &()).attribute("name", "").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_read_back_leaves_doubt_and_is_undone_all_the_same() {
    let trace = Trace::default();
    let undone = trace.clone();
    let measure = Step::new("measure", |_: Context<serde_json::Value>| async { Ok(f64::NAN) });
    let measure = measure.compensate(move |_, undo| {
        undone.say(format!("undo {:?}", undo.result));
        async { Ok(()) }
    });
    let engine = engine_with(Saga::builder("s").step(measure).build().unwrap()).await;
    let ended = execute(&engine, "s").await;
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.error.unwrap().kind, ErrorKind::Unusable);
    assert_eq!(trace.said(), ["undo None"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_kept_fails_the_step_that_sends_it() {
    for (topic, key, size) in [("", "key", 1), ("topic", "", 1), ("topic", "a\0b", 1), ("topic", "key", 1001)]
    {
        let step = Step::new("a", move |ctx: Context<serde_json::Value>| async move {
            Ok(ctx.publish(topic, key, &"x".repeat(size))?)
        });
        let saga = Saga::builder("s").step(step).build().unwrap();
        let engine = Bench::with(|options| options.max_payload = 1000).open_with(saga).await;
        let ended = execute(&engine, "s").await;
        assert_eq!(ended.status, Status::Compensated);
        assert_eq!(ended.error.unwrap().kind, ErrorKind::Unusable, "{topic} {key:?} {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_of_the_wrong_shape_fails_the_step_that_reads_it() {
    let saga = Saga::builder("s").step(Step::new("a", |ctx: Context<u32>| async move { Ok(*ctx.input()) }));
    let engine = engine_with(saga.build().unwrap()).await;
    let ended = engine.start("s", "seven").await.unwrap().outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(ended.step("a").unwrap().attempts, 1, "trying again cannot help");
    assert_eq!(ended.error.as_ref().unwrap().kind, ErrorKind::Refused);
    assert!(ended.error.unwrap().message.contains("step `a`"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_not_there_or_something_else_fails_the_step() {
    let saga = Saga::builder("s")
        .step(Step::new("a", |_: Context<serde_json::Value>| async { Ok("text") }))
        .step(Step::new("b", |ctx: Context<serde_json::Value>| async move {
            assert!(ctx.result::<u32>("nowhere").unwrap_err().message.contains("depend on it"));
            Ok(ctx.result::<u32>("a")?)
        }));
    let ended = run_alone(saga.build().unwrap()).await;
    assert_eq!(ended.failed_step.unwrap().as_str(), "b");
    assert_eq!(ended.error.unwrap().kind, ErrorKind::Refused);
}

#[tokio::test(start_paused = true)]
async fn what_a_saga_is_started_with_reaches_its_steps() {
    let saga = Saga::builder("s").step(Step::new("a", |ctx: Context<(u32, String)>| async move {
        let (number, text) = ctx.input();
        Ok(format!("{number} {text} {:?} {:?}", ctx.correlation_id(), ctx.attributes().get("tenant")))
    }));
    let engine = engine_with(saga.build().unwrap()).await;
    let started = engine.start("s", &(7, "seven")).correlation_id("order-1").attribute("tenant", "acme");
    let ended = started.await.unwrap().outcome().await.unwrap();
    assert_eq!(ended.result::<String>("a").unwrap(), "7 seven Some(\"order-1\") Some(\"acme\")");
    assert_eq!(ended.correlation_id.as_deref(), Some("order-1"));
}

#[test]
fn a_definition_with_mistakes_is_refused_with_all_of_them() {
    let trace = Trace::default();
    let problems = Saga::builder("s")
        .step(noting("a", &trace).depends_on(["c"]))
        .step(noting("b", &trace).depends_on(["nowhere"]))
        .step(noting("c", &trace).depends_on(["a"]))
        .step(noting("b", &trace))
        .build()
        .err()
        .unwrap();
    let text = problems.to_string();
    assert!(text.contains("nowhere"), "{text}");
    assert!(problems.0.len() >= 2, "{text}");
}
