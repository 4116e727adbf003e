//! Messages to the world.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch::relay::{Message, Sink};
use backstitch::{Context, Engine, Retry, Saga, Step, StepError, secs};
use serde_json::json;

use crate::support::*;

async fn engine(post: &Post, saga: Saga) -> Engine {
    Bench::with(|options| options.sink = Arc::new(post.clone())).open_with(saga).await
}

/// Publishes on every attempt; only the last one succeeds.
fn publishing(topic: &'static str, fails: u32) -> Step<serde_json::Value, ()> {
    let step = Step::new(topic, move |ctx: Context<serde_json::Value>| async move {
        ctx.publish(topic, &ctx.idempotency_key(), &json!({"attempt": ctx.attempt()}))?;
        if ctx.attempt() <= fails { Err(StepError::failed("busy")) } else { Ok(()) }
    });
    step.retry(Retry::fixed(3, secs(1)))
}

#[tokio::test(start_paused = true)]
async fn a_message_goes_out_only_if_its_attempt_succeeds() {
    let post = Post::default();
    let engine = engine(&post, Saga::builder("s").step(publishing("t", 2)).build().unwrap()).await;
    assert!(execute(&engine, "s").await.succeeded());
    tokio::time::sleep(secs(60)).await;
    let sent = post.sent.lock().unwrap().clone();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload.as_str(), "{\"attempt\":3}");
    assert!(sent[0].idempotency_key.ends_with(":t:do") && !sent[0].in_doubt);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_sends_nothing() {
    let post = Post::default();
    let engine = engine(&post, Saga::builder("s").step(publishing("t", 99)).build().unwrap()).await;
    assert!(!execute(&engine, "s").await.succeeded());
    tokio::time::sleep(secs(60)).await;
    assert!(post.topics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_until_the_other_side_has_it() {
    let post = Post::default();
    *post.failures.lock().unwrap() = 3;
    let engine = engine(&post, Saga::builder("s").step(publishing("t", 0)).build().unwrap()).await;
    assert!(execute(&engine, "s").await.succeeded());
    tokio::time::sleep(secs(600)).await;
    assert_eq!(post.topics(), ["t"]);
    assert_eq!(*post.tries.lock().unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_message_nobody_takes_is_given_up() {
    let post = Post::default();
    *post.failures.lock().unwrap() = u32::MAX;
    let engine = engine(&post, Saga::builder("s").step(publishing("t", 0)).build().unwrap()).await;
    assert!(execute(&engine, "s").await.succeeded());
    tokio::time::sleep(secs(24 * 3600)).await;
    assert_eq!(*post.tries.lock().unwrap(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_failed_rollback_raises_an_alert() {
    let (post, trace) = (Post::default(), Trace::default());
    let stuck = stubborn("a", &trace).compensation_retry(Retry::none());
    let engine =
        engine(&post, Saga::builder("s").step(stuck).step(refusing("no", &trace)).build().unwrap()).await;
    let ended = execute(&engine, "s").await;
    eventually("an alert", async || !post.topics().is_empty()).await;
    let sent = post.sent.lock().unwrap().clone();
    assert_eq!(sent[0].topic, "backstitch.alerts");
    let alert: serde_json::Value = sent[0].payload.decode().unwrap();
    assert_eq!(alert["alert"], "rollback_failed");
    assert_eq!(alert["saga_id"], ended.id.to_string());
    assert_eq!((&alert["step"], &alert["error"]["message"]), (&json!("a"), &json!("it stays")));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_given_up_raises_an_alert() {
    let (post, trace) = (Post::default(), Trace::default());
    let saga = Saga::builder("s")
        .step(noting("a", &trace))
        .on_success(|_| async { Err(backstitch::StepError::failed("nobody listens")) });
    let engine = engine(&post, saga.build().unwrap()).await;
    let ended = execute(&engine, "s").await;
    eventually("an alert", async || !post.topics().is_empty()).await;
    tokio::time::sleep(secs(24 * 3600)).await;
    let sent = post.sent.lock().unwrap().clone();
    assert_eq!(post.topics(), ["backstitch.alerts"]);
    let alert: serde_json::Value = sent[0].payload.decode().unwrap();
    assert_eq!((&alert["alert"], &alert["hook"]), (&json!("hook_failed"), &json!("on_success")));
    assert_eq!((&alert["saga_id"], &alert["definition"]), (&json!(ended.id.to_string()), &json!("s")));
    assert!(alert["error"].as_str().unwrap().contains("nobody listens"), "{alert}");
}

#[tokio::test(start_paused = true)]
async fn a_clean_rollback_raises_none() {
    let (post, trace) = (Post::default(), Trace::default());
    let saga = Saga::builder("s").step(noting("a", &trace)).step(refusing("no", &trace)).build().unwrap();
    let engine = engine(&post, saga).await;
    execute(&engine, "s").await;
    tokio::time::sleep(secs(60)).await;
    assert!(post.topics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_process_did_not_live_to_send_is_sent_by_the_next() {
    let post = Post::default();
    *post.failures.lock().unwrap() = 1;
    let bench = Bench::with(|options| options.sink = Arc::new(post.clone()));
    let saga = || Saga::builder("s").step(publishing("t", 0)).build().unwrap();
    let engine = bench.open_with(saga()).await;
    execute(&engine, "s").await;
    drop(engine);
    let _engine = bench.open().await;
    eventually("it is sent", async || post.topics() == ["t"]).await;
}

/// Panics while the first send is given up, and then keeps what is sent.
#[derive(Clone, Default)]
struct Exploding(Post);

#[async_trait]
impl Sink for Exploding {
    async fn send(&self, message: &Message) -> Result<(), String> {
        *self.0.tries.lock().unwrap() += 1;
        if *self.0.tries.lock().unwrap() == 1 {
            explode_when_dropped().await
        } else {
            self.0.send(message).await
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_that_panics_while_it_is_given_up_is_tried_again() {
    let sink = Exploding::default();
    let bench = Bench::with(|options| options.sink = Arc::new(sink.clone()));
    let engine = bench.open_with(Saga::builder("s").step(publishing("t", 0)).build().unwrap()).await;
    execute(&engine, "s").await;
    eventually("it is sent", async || sink.0.topics() == ["t"]).await;
    assert!(!sink.0.sent.lock().unwrap()[0].in_doubt, "it was given up, not forgotten");
}
