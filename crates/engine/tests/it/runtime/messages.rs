//! Messages to the world.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::outbox::{Route, Routes};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::outbox::{NewMessage, Status};
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::store::{Commit, Error, Verdict};
use backstitch::{Context, Engine, Event, Payload, Recorded, Retry, Run, Saga, Step, StepError, secs};
use serde_json::json;
use tokio::time::Instant;

use crate::runtime::support::*;

async fn engine(post: &Post, saga: Saga) -> Engine {
    Bench::with(|options| options.routes = Routes::all_to(Arc::new(post.clone()))).open_with(saga).await
}

/// Publishes on every attempt; only the last one succeeds.
fn publishing(topic: &'static str, fails: u32) -> Step<serde_json::Value, ()> {
    let step = Step::new(topic, move |ctx: Context<serde_json::Value>| async move {
        ctx.publish(topic, &ctx.idempotency_key(), &json!({"attempt": ctx.attempt()}))?;
        if ctx.attempt() <= fails { Err(StepError::not_done("busy").into()) } else { Ok(()) }
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
async fn every_step_that_cannot_be_undone_raises_an_alert() {
    let (post, trace) = (Post::default(), Trace::default());
    let stuck = |id: &'static str| stubborn(id, &trace).compensation_retry(Retry::none());
    let saga = Saga::builder("s").continue_on_compensation_failure(true);
    let saga = saga.step(stuck("a")).step(stuck("b")).step(refusing("no", &trace));
    let engine = engine(&post, saga.build().unwrap()).await;
    execute(&engine, "s").await;
    eventually("two alerts", async || post.topics().len() == 2).await;
    let sent = post.sent.lock().unwrap().clone();
    let steps: BTreeSet<String> = sent
        .iter()
        .map(|message| message.payload.decode::<serde_json::Value>().unwrap()["step"].to_string())
        .collect();
    assert_eq!(steps, BTreeSet::from(["\"a\"".to_owned(), "\"b\"".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_alert_is_tried_until_it_is_out() {
    let (post, trace) = (Post::default(), Trace::default());
    *post.failures.lock().unwrap() = 20;
    let stuck = stubborn("a", &trace).compensation_retry(Retry::none());
    let saga = Saga::builder("s").step(stuck).step(refusing("no", &trace)).build().unwrap();
    let engine = engine(&post, saga).await;
    execute(&engine, "s").await;
    eventually("an alert", async || post.topics() == ["backstitch.alerts"]).await;
    assert_eq!(*post.tries.lock().unwrap(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_given_up_raises_an_alert() {
    let (post, trace) = (Post::default(), Trace::default());
    let saga = Saga::builder("s")
        .step(noting("a", &trace))
        .on_success(|_| async { Err(backstitch::StepError::not_done("nobody listens").into()) });
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
    let bench = Bench::with(|options| options.routes = Routes::all_to(Arc::new(post.clone())));
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
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
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
    let bench = Bench::with(|options| options.routes = Routes::all_to(Arc::new(sink.clone())));
    let engine = bench.open_with(Saga::builder("s").step(publishing("t", 0)).build().unwrap()).await;
    execute(&engine, "s").await;
    eventually("it is sent", async || sink.0.topics() == ["t"]).await;
    assert!(!sink.0.sent.lock().unwrap()[0].in_doubt, "it was given up, not forgotten");
}

/// Takes its time with one topic.
#[derive(Clone)]
struct SlowWith {
    topic: &'static str,
    post: Post,
}

#[async_trait]
impl Sink for SlowWith {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        if message.topic == self.topic {
            tokio::time::sleep(secs(20)).await;
        }
        self.post.send(message).await
    }
}

fn slow_with(topic: &'static str) -> (SlowWith, Bench) {
    let sink = SlowWith { topic, post: Post::default() };
    let bench = Bench::with(|options| options.routes = Routes::all_to(Arc::new(sink.clone())));
    (sink, bench)
}

#[tokio::test(start_paused = true)]
async fn only_the_engine_publishes_to_reserved_topics() {
    let post = Post::default();
    let forging = Step::new("forge", |ctx: Context<serde_json::Value>| async move {
        ctx.publish("backstitch.alerts", "k", &json!({"alert": "forged"}))?;
        Ok(())
    });
    let engine = engine(&post, Saga::builder("s").step(forging).build().unwrap()).await;
    for topic in ["backstitch.alerts", "backstitch.sagas", "backstitch.x"] {
        let refused = engine.publish(topic, "k", &1).await.unwrap_err().to_string();
        assert!(refused.contains("reserved for the engine: choose another name"), "{refused}");
    }
    assert!(!execute(&engine, "s").await.succeeded());
    tokio::time::sleep(secs(60)).await;
    assert!(!post.topics().iter().any(|topic| topic == "backstitch.alerts"));
}

#[tokio::test(start_paused = true)]
async fn an_ordering_scope_is_a_pattern_above_the_topic() {
    let (sink, bench) = slow_with("sites.slow");
    let engine = bench.open().await;
    for scope in ["orders.*", "sites", "*", "sites.slow.*"] {
        let refused = engine.publish("sites.slow", "k", &1).ordering_key("s").ordering_scope(scope).await;
        assert!(refused.is_err(), "{scope}");
    }
    for (nth, topic) in (0..).zip(["sites.slow", "sites.fast", "sites.slow", "sites.fast"]) {
        let publishing = engine.publish(topic, &format!("k{nth}"), &nth);
        publishing.ordering_key("s").ordering_scope("sites.*").await.unwrap();
    }
    engine.publish("sites.fast", "other", &1).ordering_key("t").ordering_scope("sites.*").await.unwrap();
    eventually("all are sent", async || sink.post.topics().len() == 5).await;
    let topics = ["sites.fast", "sites.slow", "sites.fast", "sites.slow", "sites.fast"];
    assert_eq!(sink.post.topics(), topics, "another key first, and the others in their order");
}

#[tokio::test(start_paused = true)]
async fn topics_of_a_pattern_share_its_route_and_those_of_none_wait() {
    let post = Post::default();
    let route = Route::to(Arc::new(post.clone()));
    let bench = Bench::with(|options| options.routes = Routes::none().with("sites.*", route));
    let engine = bench.open().await;
    for topic in ["sites", "sites.live", "sitesx.live", "sites.eu.live"] {
        engine.publish(topic, "k", &1).await.unwrap();
    }
    tokio::time::sleep(secs(60)).await;
    let sent: BTreeSet<String> = post.topics().into_iter().collect();
    assert_eq!(sent, ["sites.eu.live", "sites.live"].map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn topics_that_come_and_go_leave_nothing_behind() {
    let post = Post::default();
    // Each lane has the sink as well.
    let sink: Arc<dyn Sink> = Arc::new(post.clone());
    let bench = Bench::with(|options| {
        options.routes = Routes::none().with("sites.*", Route::to(sink.clone()));
    });
    let engine = bench.open().await;
    for nth in 0..600 {
        engine.publish(&format!("sites.{nth}"), "k", &1).await.unwrap();
    }
    eventually("all are sent", async || post.topics().len() == 600).await;
    for topic in ["sites.0", "sites.599"] {
        engine.publish(topic, "again", &2).await.unwrap();
    }
    eventually("a topic that was let go is taken up again", async || post.topics().len() == 602).await;
    let lanes = Arc::strong_count(&sink);
    assert!(lanes < 300, "{lanes} of them for two topics");
}

#[tokio::test(start_paused = true)]
async fn a_slow_send_holds_up_no_other() {
    let (sink, bench) = slow_with("slow");
    let saga = Saga::builder("s").step(publishing("slow", 0)).step(publishing("fast", 0)).build().unwrap();
    let engine = bench.open_with(saga).await;
    let begun = Instant::now();
    for _ in 0..3 {
        execute(&engine, "s").await;
        tokio::time::sleep(secs(2)).await;
    }
    assert_eq!(sink.post.topics(), ["fast"; 3]);
    eventually("all are sent", async || sink.post.topics().len() == 6).await;
    assert!(begun.elapsed() < secs(27), "the slow ones did not wait for each other");
    tokio::time::sleep(secs(600)).await;
    assert_eq!(sink.post.topics().len(), 6, "none is sent twice");
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_key_arrive_in_order_however_slow_they_are() {
    let (sink, bench) = slow_with("t");
    let saga = Saga::builder("s").step(hanging("a", &Trace::default())).build().unwrap();
    let engine = bench.open_with(saga).await;
    let run = start(&engine, "s").await;
    wait_for_start_of(&run, "a").await;
    let begun = Instant::now();
    write(&bench, &run, ["m0", "m1", "m2", "m3"].map(in_order).into()).await;
    eventually("all are sent", async || sink.post.topics().len() == 4).await;
    assert!(begun.elapsed() < secs(82), "each begins as soon as the one before it has arrived");
    let sent = sink.post.sent.lock().unwrap().clone();
    let keys: Vec<&str> = sent.iter().map(|message| message.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["m0", "m1", "m2", "m3"]);
}

fn in_order(key: &str) -> NewMessage {
    NewMessage {
        topic: "t".to_owned(),
        idempotency_key: key.to_owned(),
        ordering_key: Some("one".to_owned()),
        payload: Payload::encode(key).unwrap(),
        expires_at: None,
    }
}

/// Writes messages with a decision of a saga that runs; its driver knows nothing of it.
async fn write(bench: &Bench, run: &Run, messages: Vec<NewMessage>) {
    let head = bench.store.log(run.id(), 0, 100).await.unwrap().pop().unwrap();
    let event = Event::SagaAdopted { node: "nobody".to_owned(), epoch: 1 };
    let event = Recorded { seq: head.seq + 1, at: head.at, event };
    let commit = Commit {
        saga: run.id(),
        events: vec![event],
        row: None,
        consume_inbox_through: None,
        jobs: Vec::new(),
        withdrawn_jobs: Vec::new(),
        messages,
        rows: Vec::new(),
        claim: None,
    };
    assert_eq!(bench.store.commit(&[commit]).await.unwrap(), [Verdict::Applied]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_messages_on_their_way_arrive() {
    let (sink, bench) = slow_with("t");
    let saga = || Saga::builder("s").step(publishing("t", 0)).build().unwrap();
    let engine = bench.open_with(saga()).await;
    execute(&engine, "s").await;
    tokio::time::sleep(secs(2)).await;
    engine.shutdown().await.unwrap();
    assert_eq!(sink.post.topics(), ["t"]);
    let _engine = bench.open_with(saga()).await;
    tokio::time::sleep(secs(600)).await;
    assert_eq!(sink.post.topics(), ["t"], "it is not sent again");
}

/// Asks for more time the first time, and notes when it was asked.
#[derive(Clone)]
struct Busy {
    asks_for: Duration,
    asked: Arc<Mutex<Vec<Instant>>>,
}

#[async_trait]
impl Sink for Busy {
    async fn send(&self, _: &Message) -> Result<Receipt, Undelivered> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(Instant::now());
        if asked.len() > 1 {
            return Ok(Receipt::default());
        }
        Err(Undelivered::new("http_429", "not now").with_retry_after(Some(self.asks_for)))
    }
}

/// How long a message waits for its second send if the receiver asks for this.
async fn wait_when_asked_for(asks_for: Duration) -> Duration {
    let busy = Busy { asks_for, asked: Arc::default() };
    let bench = Bench::with(|options| options.routes = Routes::all_to(Arc::new(busy.clone())));
    let engine = bench.open().await;
    engine.publish("t", "k", &1).await.unwrap();
    tokio::time::sleep(secs(2 * 3600)).await;
    let asked = busy.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    asked[1] - asked[0]
}

#[tokio::test(start_paused = true)]
async fn a_receiver_may_ask_for_a_later_send_but_neither_for_a_sooner_one_nor_for_ever() {
    let tick = secs(1);
    for (asked, least) in [(120, 120), (0, 5), (24 * 3600, 3600)] {
        let waited = wait_when_asked_for(secs(asked)).await;
        assert!((secs(least)..secs(least) + tick).contains(&waited), "{asked}: {waited:?}");
    }
}

/// Writes what became of messages only after so many failures.
struct Forgetful {
    failures: AtomicU32,
    /// Whether it is written and only the answer is lost.
    writes: bool,
}

#[async_trait]
impl Watch for Forgetful {
    async fn at(&self, moment: Moment<'_>) -> Result<(), Error> {
        let fails = match moment {
            Moment::BeforeSettlingMessages => !self.writes,
            Moment::AfterSettlingMessages => self.writes,
            _ => false,
        };
        let one_less = |left: u32| left.checked_sub(1);
        if fails && self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Err(Error::Unavailable("not now".to_owned()));
        }
        Ok(())
    }
}

/// An engine on a store of that kind, which sends to this sink.
async fn forgetful(sink: impl Sink, failures: u32, writes: bool) -> (Bench, Arc<Watched<Forgetful>>, Engine) {
    let bench = Bench::with(|options| options.routes = Routes::all_to(Arc::new(sink)));
    let watch = Forgetful { failures: AtomicU32::new(failures), writes };
    let store = Arc::new(Watched::new(bench.store.clone(), watch));
    let engine = Engine::on_store(store.clone(), bench.options.clone()).await.unwrap();
    (bench, store, engine)
}

/// The status of a message, its finished sends, and whether it is in doubt.
async fn standing(bench: &Bench, key: &str) -> (Status, u32, bool) {
    let kept = bench.store.message_of("t", key).await.unwrap().unwrap();
    (kept.status, kept.attempts, kept.in_doubt)
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_and_could_not_be_written_down_is_written_later_and_not_sent_again() {
    for (failures, writes) in [(1, false), (20, false), (1, true)] {
        let post = Post::default();
        let (bench, store, engine) = forgetful(post.clone(), failures, writes).await;
        for nth in 0..20 {
            engine.publish("t", &format!("k{nth}"), &nth).await.unwrap();
        }
        tokio::time::sleep(secs(600)).await;
        assert_eq!(store.failures.load(Ordering::SeqCst), 0, "it came to the worst");
        assert_eq!(*post.tries.lock().unwrap(), 20);
        for nth in 0..20 {
            let told = standing(&bench, &format!("k{nth}")).await;
            assert_eq!(told, (Status::Succeeded, 1, false), "k{nth}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_send_that_could_not_be_written_down_counts_once() {
    let post = Post::default();
    *post.failures.lock().unwrap() = 1;
    let (bench, _, engine) = forgetful(post.clone(), 1, false).await;
    engine.publish("t", "k", &1).await.unwrap();
    tokio::time::sleep(secs(600)).await;
    assert_eq!(*post.tries.lock().unwrap(), 2);
    assert_eq!(standing(&bench, "k").await, (Status::Succeeded, 2, false));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_down_while_it_was_ours_is_sent_again_in_doubt() {
    let post = Post::default();
    let (bench, store, engine) = forgetful(post.clone(), u32::MAX, false).await;
    engine.publish("t", "k", &1).await.unwrap();
    eventually("it is sent again", async || *post.tries.lock().unwrap() == 2).await;
    store.failures.store(0, Ordering::SeqCst);
    tokio::time::sleep(secs(600)).await;
    assert_eq!(*post.tries.lock().unwrap(), 2);
    assert_eq!(standing(&bench, "k").await, (Status::Succeeded, 1, true));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_down_what_arrived_although_the_store_fails_at_first() {
    let sink = SlowWith { topic: "t", post: Post::default() };
    let (bench, _, engine) = forgetful(sink.clone(), 3, false).await;
    engine.publish("t", "k", &1).await.unwrap();
    tokio::time::sleep(secs(2)).await;
    engine.shutdown().await.unwrap();
    assert_eq!(*sink.post.tries.lock().unwrap(), 1);
    assert_eq!(standing(&bench, "k").await, (Status::Succeeded, 1, false));
}
