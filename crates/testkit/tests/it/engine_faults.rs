//! An engine with a misbehaving store, steps, hooks or sink: nothing is lost, and other sagas are unaffected.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch::clock::TokioClock;
use backstitch::outbox::Routes;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch::store::outbox::Listing;
use backstitch::store::sqlite::SqliteStore;
use backstitch::store::watched::{Moment, Watch, Watched};
use backstitch::store::{self, Store};
use backstitch::{
    Builder, Context, Cursor, Engine, Error, Filter, Options, Recorded, Resolution, Retry, STUCK_AFTER, Saga,
    SagaId, SagaState, Status, Step, StepError, StepResult, Undo, secs,
};
use backstitch_testkit::chaos::faulty::{Fault, Faulty};
use backstitch_testkit::conformance::make;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::{Instant, timeout};

/// Longer than anything here takes, in simulated time.
const LONG: Duration = secs(3600);
/// Longer than the poll interval for work without notification.
const FOUND: Duration = secs(15);

/// A store for several engines, one after the other.
struct Bench {
    store: Arc<dyn Store>,
    options: Options,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(TokioClock::default());
        let options = Options { clock: clock.clone(), ..Options::default() };
        Self { store: Arc::new(SqliteStore::in_memory(clock).unwrap()), options }
    }

    async fn open_on(&self, store: Arc<dyn Store>) -> Engine {
        Engine::on_store(store, self.options.clone()).await.unwrap()
    }

    async fn open_with(&self, saga: Saga) -> Engine {
        let engine = self.open_on(self.store.clone()).await;
        engine.register(saga).unwrap();
        engine
    }

    /// An engine with this store fault. Its first poll is over before anything is registered.
    async fn open_faulty_with(&self, fault: Fault, saga: Saga) -> (Engine, Arc<Watched<Faulty>>) {
        let faulty = Arc::new(Faulty::on(self.store.clone(), fault));
        let engine = self.open_on(faulty.clone()).await;
        tokio::time::sleep(secs(5)).await;
        engine.register(saga).unwrap();
        (engine, faulty)
    }

    /// Starts this many sagas and stops the process during their step.
    async fn left_behind(&self, count: usize) -> Vec<SagaId> {
        let begun = Trace::default();
        let engine = self.open_with(hanging(&begun)).await;
        let mut sagas = Vec::new();
        for _ in 0..count {
            sagas.push(engine.start("s", &()).await.unwrap().id());
        }
        begun.until("do a", count).await;
        sagas
    }

    async fn log(&self, saga: SagaId) -> Vec<Recorded> {
        self.store.log(saga, 0, 1000).await.unwrap()
    }
}

/// A log of events.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| *said == what).count()
    }

    async fn until(&self, what: &str, count: usize) {
        let begun = Instant::now();
        while self.count(what) < count {
            assert!(begun.elapsed() < LONG, "never so: {count} times `{what}`");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A saga with one instant step, `a`.
fn quick(trace: &Trace) -> Saga {
    let trace = trace.clone();
    let a = Step::new("a", move |_: Context<Value>| {
        trace.say("do a");
        async { Ok(()) }
    });
    Saga::builder("s").step(a).build().unwrap()
}

/// The same saga with a step that never ends.
fn hanging(trace: &Trace) -> Saga {
    let trace = trace.clone();
    let a = Step::new("a", move |_: Context<Value>| {
        trace.say("do a");
        pending::<StepResult<()>>()
    });
    Saga::builder("s").step(a).build().unwrap()
}

/// A saga that fails and cannot undo its first step; the caller may add more steps.
fn stuck(trace: &Trace, hook_answers: Result<(), StepError>) -> Builder {
    let told = trace.clone();
    let a = Step::new("a", |_: Context<Value>| async { Ok(()) })
        .compensate(|_, _: Undo<()>| async { Err::<(), _>(StepError::refused("it stays").into()) })
        .compensation_retry(Retry::none());
    let no = Step::new("no", |_: Context<Value>| async { Err::<(), _>(StepError::refused("no").into()) });
    Saga::builder("s").step(a).step(no).on_failure(move |ended| {
        told.say(format!("told {}", ended.status));
        let answer = hook_answers.clone();
        async move { Ok(answer?) }
    })
}

/// Waits for a saga's end within this time.
async fn end_of(engine: &Engine, saga: SagaId, within: Duration) -> SagaState {
    let run = engine.find(saga).await.unwrap();
    let Ok(ended) = timeout(within, run.outcome()).await else { panic!("saga {saga} is left stalled") };
    ended.unwrap()
}

async fn shut_down(engine: Engine) -> Duration {
    let begun = Instant::now();
    let Ok(done) = timeout(LONG, engine.shutdown()).await else { panic!("the shutdown never returns") };
    done.unwrap();
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn resolving_with_changed_steps_is_refused() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let engine = bench.open_with(stuck(&trace, Ok(())).build().unwrap()).await;
    let saga = engine.start("s", &()).await.unwrap().id();
    assert_eq!(end_of(&engine, saga, FOUND).await.status, Status::Failed);
    shut_down(engine).await;
    let before = bench.log(saga).await;

    // The log also matches these steps, so only the comparison of fingerprints can tell.
    let more = Step::new("more", |_: Context<Value>| async { Ok(()) });
    let engine = bench.open_with(stuck(&trace, Ok(())).step(more).build().unwrap()).await;
    // First without a comparison of the steps, then with one.
    for _ in 0..2 {
        let refused = engine.resolve(saga, "a", Resolution::Done, "by hand").await;
        assert!(matches!(refused, Err(Error::VersionTaken { version: 1, .. })), "{refused:?}");
        tokio::time::sleep(LONG).await;
    }
    assert_eq!(bench.log(saga).await, before);
    let shown = engine.load(saga).await.unwrap().unwrap();
    assert_eq!((shown.status, shown.steps.len()), (Status::Failed, 2), "it is shown with its own steps");
    shut_down(engine).await;

    let engine = bench.open_with(stuck(&trace, Ok(())).build().unwrap()).await;
    engine.resolve(saga, "a", Resolution::Done, "by hand").await.unwrap();
    assert_eq!(end_of(&engine, saga, FOUND).await.status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn hooks_of_changed_steps_wait_for_the_right_version() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let engine = bench.open_with(stuck(&trace, Err(StepError::not_done("busy"))).build().unwrap()).await;
    engine.start("s", &()).await.unwrap();
    trace.until("told failed", 1).await;
    shut_down(engine).await;

    let more = Step::new("more", |_: Context<Value>| async { Ok(()) });
    let engine = bench.open_with(stuck(&trace, Ok(())).step(more).build().unwrap()).await;
    // Longer than all attempts of a hook take.
    tokio::time::sleep(LONG).await;
    assert_eq!(trace.count("told failed"), 1, "a hook was called with steps that are not the saga's");
    shut_down(engine).await;

    let _engine = bench.open_with(stuck(&trace, Ok(())).build().unwrap()).await;
    trace.until("told failed", 2).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(trace.count("told failed"), 2);
}

#[tokio::test(start_paused = true)]
async fn sagas_with_an_unanswered_adoption_are_executed() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let sagas = bench.left_behind(3).await;
    let (engine, faulty) = bench.open_faulty_with(Fault::LoseFirstAdoptionAnswer, quick(&trace)).await;
    for saga in sagas {
        assert!(end_of(&engine, saga, FOUND).await.succeeded());
        let adopted = bench.log(saga).await.iter().filter(|it| it.event.name() == "saga.adopted").count();
        assert_eq!(adopted, 1, "it was ours already");
    }
    assert_eq!((faulty.fired(), trace.count("do a")), (1, 3));
    assert!(shut_down(engine).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn failed_adoption_at_startup_is_retried() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let sagas = bench.left_behind(3).await;
    let (engine, faulty) = bench.open_faulty_with(Fault::FailFirstAdoption, quick(&trace)).await;
    for saga in sagas {
        assert!(end_of(&engine, saga, FOUND).await.succeeded());
    }
    assert_eq!((faulty.fired(), trace.count("do a")), (1, 3));
    assert!(shut_down(engine).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn saga_of_a_cancelled_start_is_executed() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let (engine, faulty) = bench.open_faulty_with(Fault::HoldFrom(1), quick(&trace)).await;
    let given_up = timeout(secs(1), engine.start("s", &()).into_future()).await;
    assert!(given_up.is_err() && faulty.fired() == 1, "the start was to be dropped during its commit");
    assert_eq!(engine.active(), 0, "whoever goes away takes no place with them");
    faulty.release();
    tokio::time::sleep(FOUND).await;
    let everything = Cursor { before: None, limit: 10 };
    let page = engine.list(&Filter::default(), &everything).await.unwrap();
    let [saga] = &page.items[..] else { panic!("one saga was started: {:?}", page.items) };
    assert_eq!(saga.status, Status::Succeeded, "the saga is left stalled");
    assert_eq!(trace.count("do a"), 1);
    assert!(shut_down(engine).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn dropped_unwritten_start_leaves_nothing() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let (engine, _) = bench.open_faulty_with(Fault::FullEvery(1), quick(&trace)).await;
    // Polled once: the decision is in flight, and its caller is gone.
    let mut start = engine.start("s", &()).into_future();
    assert!(futures::poll!(&mut start).is_pending());
    drop(start);
    tokio::time::sleep(FOUND).await;
    assert_eq!((engine.active(), trace.count("do a")), (0, 0));
    assert!(shut_down(engine).await < secs(1));
}

/// Panics twice with every message of the topic `bad`: before its first await and after it.
#[derive(Clone, Default)]
struct Panicking {
    tries: Arc<Mutex<HashMap<String, u32>>>,
    sent: Trace,
}

impl Sink for Panicking {
    fn send<'a, 'b, 'c>(&'a self, message: &'b Message) -> BoxFuture<'c, Result<Receipt, Undelivered>>
    where
        'a: 'c,
        'b: 'c,
    {
        let tries = {
            let mut tries = self.tries.lock().unwrap();
            let tries = tries.entry(message.idempotency_key.clone()).or_default();
            *tries += 1;
            *tries
        };
        let bad = message.topic == "bad";
        assert!(!bad || tries != 1, "the sink panics at once");
        Box::pin(async move {
            assert!(!bad || tries != 2, "the sink panics while it sends");
            self.sent.say(&message.topic);
            Ok(Receipt::default())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_does_not_stop_the_relay() {
    let (mut bench, sink) = (Bench::new(), Panicking::default());
    bench.options.routes = Routes::all_to(Arc::new(sink.clone()));
    let publish = Step::new("publish", |ctx: Context<String>| async move {
        Ok(ctx.publish(ctx.input(), &ctx.idempotency_key(), &Value::Null)?)
    });
    let engine = bench.open_with(Saga::builder("s").step(publish).build().unwrap()).await;
    for (topic, sent) in [("bad", 0), ("good", 1)] {
        let run = engine.start("s", topic).await.unwrap();
        assert!(run.outcome().await.unwrap().succeeded());
        tokio::time::sleep(secs(2)).await;
        assert_eq!(sink.sent.count(topic), sent, "{topic}");
    }
    sink.sent.until("bad", 1).await;
    tokio::time::sleep(LONG).await;
    assert_eq!((sink.sent.count("bad"), sink.sent.count("good")), (1, 1), "what was sent is not sent again");
    assert!(shut_down(engine).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_hook_holds_up_neither_other_hooks_nor_a_shutdown() {
    let (mut bench, trace) = (Bench::new(), Trace::default());
    bench.options.grace = secs(7);
    let called = trace.clone();
    let saga = Saga::builder("s").step(Step::new("a", |_: Context<Value>| async { Ok(()) }));
    let saga = saga.on_success(move |ended| {
        let input: String = ended.input.decode().unwrap();
        called.say(&input);
        async move { if input == "slow" { pending().await } else { Ok(()) } }
    });
    let engine = bench.open_with(saga.build().unwrap()).await;
    let begun = Instant::now();
    // Together, so they may be read in one batch; and again once the slow one is known to be slow.
    for input in ["slow", "fast", "fast"] {
        engine.start("s", input).await.unwrap();
    }
    trace.until("slow", 1).await;
    engine.start("s", "fast").await.unwrap();
    trace.until("fast", 3).await;
    assert!(begun.elapsed() < secs(5), "the others waited for the slow one: {:?}", begun.elapsed());
    assert_eq!(trace.count("slow"), 1);
    let took = shut_down(engine).await;
    assert!(took <= secs(7), "the shutdown waited for the hook: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_options_are_refused_with_all_errors() {
    let nothing = Duration::ZERO;
    let options = Options { max_active: 0, tick: nothing, lease: nothing, ..Options::default() };
    let Err(Error::BadOptions(mistakes)) = Engine::in_memory_with(options).await else {
        panic!("settings that cannot work were accepted");
    };
    for name in ["max_active", "tick", "lease"] {
        assert!(mistakes.contains(&format!("{name} must be")), "`{name}` is not named: {mistakes}");
    }
    for alone in [
        Options { max_active: 0, ..Options::default() },
        Options { tick: nothing, ..Options::default() },
        Options { lease: nothing, ..Options::default() },
    ] {
        assert!(matches!(Engine::in_memory_with(alone).await, Err(Error::BadOptions(_))));
    }
    for name in ["grace", "release_after", "send_timeout"] {
        assert!(!mistakes.contains(name), "`{name}` is no mistake: {mistakes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_very_long_error_keeps_its_beginning() {
    // Three bytes each, so the limit is in the middle of a character.
    let long = "€".repeat(100_000);
    let said = long.clone();
    let complain = Step::new("complain", move |ctx: Context<bool>| {
        let said = said.clone();
        async move {
            assert!(!ctx.input(), "{said}");
            Err::<(), _>(StepError::refused(said.clone()).with_code(said).into())
        }
    });
    let saga = Saga::builder("s").step(complain.retry(Retry::none())).build().unwrap();
    let bench = Bench::new();
    let engine = bench.open_with(saga).await;
    for (panics, beginning) in [(false, "€€€"), (true, "the step panicked: €€€")] {
        let saga = engine.start("s", &panics).await.unwrap().id();
        let error = end_of(&engine, saga, FOUND).await.error.unwrap();
        assert!(error.message.starts_with(beginning) && error.message.ends_with("€…"), "panics: {panics}");
        assert!((4000..4200).contains(&error.message.len()), "{}", error.message.len());
        assert!(error.code.is_none_or(|code| code.len() < 300));
        let kept = format!("{:?}", bench.log(saga).await).len();
        assert!(kept < long.len() / 10, "the log has {kept} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_that_is_too_long_is_refused_and_changes_nothing() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let engine = bench.open_with(hanging(&trace)).await;
    let saga = engine.start("s", &()).await.unwrap().id();
    trace.until("do a", 1).await;
    let before = bench.log(saga).await;
    let note = "n".repeat(20_481);
    for refused in [
        engine.cancel(saga, &note).await,
        engine.pause(saga, &note).await,
        engine.resume(saga, &note).await,
        engine.resolve(saga, "a", Resolution::Done, &note).await,
    ] {
        assert!(matches!(refused, Err(Error::TooLong { size: 20_481, limit: 20_480, .. })), "{refused:?}");
    }
    tokio::time::sleep(secs(5)).await;
    assert_eq!(bench.log(saga).await, before);
    engine.cancel(saga, &note[..20_480]).await.unwrap();
    assert_eq!(end_of(&engine, saga, LONG).await.status, Status::Compensated);
}

#[tokio::test(start_paused = true)]
async fn unreadable_saga_does_not_delay_others() {
    one_bad_saga_does_not_keep_its_neighbours_from_running(Fault::Unreadable, "scribbled over").await;
}

#[tokio::test(start_paused = true)]
async fn saga_without_a_store_response_does_not_delay_others() {
    one_bad_saga_does_not_keep_its_neighbours_from_running(Fault::Unanswered, "disk I/O error").await;
}

async fn one_bad_saga_does_not_keep_its_neighbours_from_running(fault: impl Fn(SagaId) -> Fault, why: &str) {
    let (bench, trace) = (Bench::new(), Trace::default());
    let sagas = bench.left_behind(5).await;
    let bad = sagas[2];
    let (engine, faulty) = bench.open_faulty_with(fault(bad), quick(&trace)).await;
    for saga in sagas.into_iter().filter(|saga| *saga != bad) {
        assert!(end_of(&engine, saga, FOUND).await.succeeded());
    }
    tokio::time::sleep(LONG).await;
    assert!(faulty.fired() > 0);
    assert_eq!((trace.count("do a"), engine.active()), (4, 0), "what cannot be read takes no room");
    let [stalled] = &engine.stalled()[..] else { panic!("it is not told: {:?}", engine.stalled()) };
    assert!(stalled.saga == bad && stalled.why.contains(why), "{stalled:?}");
    assert_eq!(stuck_at(&engine).await, [bad], "it is ours, and nothing will move it");
    let run = engine.start("s", &()).await.unwrap();
    assert!(run.outcome().await.unwrap().succeeded());
    assert!(shut_down(engine).await < secs(1));

    // It continues once it is readable again.
    let engine = bench.open_with(quick(&trace)).await;
    assert!(end_of(&engine, bad, FOUND).await.succeeded());
    assert_eq!((engine.stalled(), stuck_at(&engine).await), (vec![], vec![]));
}

async fn stuck_at(engine: &Engine) -> Vec<SagaId> {
    engine.health(STUCK_AFTER).await.unwrap().stuck.iter().map(|row| row.id).collect()
}

/// Whether only starts can be written, and lookups panic.
#[derive(Default)]
struct Treacherous(AtomicBool);

#[async_trait::async_trait]
impl Watch for Treacherous {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        let on = self.0.load(Ordering::SeqCst);
        assert!(!on || !matches!(moment, Moment::BeforeLog), "the store broke down");
        match moment {
            Moment::BeforeCommit(2..) if on => Err(store::Error::Unavailable("not now".to_owned())),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn saga_with_a_panicking_executor_is_stalled_until_it_works() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let store = Arc::new(Watched::new(bench.store.clone(), Treacherous(true.into())));
    let engine = bench.open_on(store.clone()).await;
    engine.register(quick(&trace)).unwrap();
    let saga = engine.start("s", &()).await.unwrap().id();
    tokio::time::sleep(LONG).await;
    let [stalled] = &engine.stalled()[..] else { panic!("it is not told: {:?}", engine.stalled()) };
    assert!(stalled.saga == saga && stalled.why.contains("the store broke down"), "{stalled:?}");
    assert_eq!((stuck_at(&engine).await, engine.active()), (vec![saga], 0));

    store.0.store(false, Ordering::SeqCst);
    assert!(end_of(&engine, saga, FOUND).await.succeeded());
    assert_eq!((engine.stalled(), stuck_at(&engine).await), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn saga_with_a_mismatched_log_is_stalled_while_owned() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let engine = bench.open_with(quick(&trace)).await;
    let saga = engine.start("s", &()).await.unwrap();
    assert!(saga.outcome().await.unwrap().succeeded());
    // A saga of the same definition that has started a step which does not exist.
    let [node] = &bench.store.nodes(1).await.unwrap()[..] else { panic!("this engine has not joined") };
    let (id, now) = (make::saga(1), engine.clock().now());
    let begun =
        make::started_with(id, now, |row| (row.owner, row.definition) = (Some(node.epoch), "s".into()));
    make::apply(&*bench.store, begun).await;
    make::apply(&*bench.store, make::appended(id, 2, now)).await;
    tokio::time::sleep(LONG).await;
    let [stalled] = &engine.stalled()[..] else { panic!("it is not told: {:?}", engine.stalled()) };
    assert!(stalled.saga == id && stalled.why.contains("does not fit"), "{stalled:?}");
    assert_eq!(stuck_at(&engine).await, [id]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_whose_last_decision_could_not_be_written_says_so() {
    let bench = Bench::new();
    let (engine, _) = bench.open_faulty_with(Fault::FullEvery(2), quick(&Trace::default())).await;
    engine.writable().await.unwrap();
    let run = engine.start("s", &()).await.unwrap();
    run.outcome().await.unwrap();
    engine.writable().await.unwrap();
    // The previous decision succeeded, so this one is the next that fails.
    let Err(refused) = engine.start("s", &()).await else { panic!("it was written") };
    for told in [refused, engine.writable().await.unwrap_err()] {
        assert!(matches!(told, Error::Store(why) if matches!(*why, store::Error::Full(_))));
    }
    engine.start("s", &()).await.unwrap().outcome().await.unwrap();
    engine.writable().await.unwrap();
}

/// Refuses all decisions but the first while enabled.
struct Refusing {
    on: AtomicBool,
    refused: AtomicUsize,
}

#[async_trait::async_trait]
impl Watch for Refusing {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        if matches!(moment, Moment::BeforeCommit(2..)) && self.on.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(store::Error::Refused("permission denied".to_owned()));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn refused_decision_is_retried_with_backoff_and_reported() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let refusing = Refusing { on: true.into(), refused: AtomicUsize::new(0) };
    let store = Arc::new(Watched::new(bench.store.clone(), refusing));
    let engine = bench.open_on(store.clone()).await;
    engine.register(quick(&trace)).unwrap();
    let saga = engine.start("s", &()).await.unwrap().id();
    tokio::time::sleep(LONG).await;
    let tries = store.refused.load(Ordering::SeqCst);
    assert!((100..3600).contains(&tries), "{tries} tries");
    let [stalled] = &engine.stalled()[..] else { panic!("it is not told: {:?}", engine.stalled()) };
    assert!(stalled.saga == saga && stalled.why.contains("permission denied"), "{stalled:?}");
    assert_eq!(stuck_at(&engine).await, [saga]);

    store.on.store(false, Ordering::SeqCst);
    assert!(end_of(&engine, saga, FOUND).await.succeeded());
    assert_eq!(trace.count("do a"), 1, "what was done is not done again");
    assert_eq!((engine.stalled(), stuck_at(&engine).await), (vec![], vec![]));
}

/// Panics in every write from this one on, once or while enabled.
struct Panicky {
    from: u64,
    on: AtomicBool,
}

#[async_trait::async_trait]
impl Watch for Panicky {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        let breaks = |number| number >= self.from && self.on.load(Ordering::SeqCst);
        if let Moment::BeforeCommit(number) = moment {
            assert!(!breaks(number), "the store broke down");
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_panics_on_write_is_reported_and_retried() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let store = Arc::new(Watched::new(bench.store.clone(), Panicky { from: 2, on: true.into() }));
    let engine = bench.open_on(store.clone()).await;
    engine.register(quick(&trace)).unwrap();
    let saga = engine.start("s", &()).await.unwrap().id();
    let why = |told: Error| match told {
        Error::Store(why) => why.to_string(),
        other => other.to_string(),
    };
    let begun = Instant::now();
    while engine.writable().await.is_ok() {
        assert!(begun.elapsed() < LONG, "nobody says that nothing can be written");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let told = [engine.writable().await.unwrap_err(), engine.start("s", &()).await.map(|_| ()).unwrap_err()];
    for told in told.map(why) {
        assert!(told.contains("the store broke down"), "{told}");
    }
    store.on.store(false, Ordering::SeqCst);
    assert!(end_of(&engine, saga, FOUND).await.succeeded());
    engine.writable().await.unwrap();
    assert!(shut_down(engine).await < secs(1));
}

/// Fails reads of sagas for a while.
#[derive(Default)]
struct Away {
    from_now: AtomicBool,
    refused: AtomicUsize,
}

#[async_trait::async_trait]
impl Watch for Away {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        if matches!(moment, Moment::BeforeLoad(_)) && self.from_now.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(store::Error::Unavailable("not now".to_owned()));
        }
        Ok(())
    }
}

/// Fails every read of a saga.
struct Closed;

#[async_trait::async_trait]
impl Watch for Closed {
    async fn at(&self, moment: Moment<'_>) -> Result<(), store::Error> {
        match moment {
            Moment::BeforeLoad(_) => Err(store::Error::Refused("permission denied".to_owned())),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_saga_that_cannot_be_read_is_reported() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let mut sagas = bench.left_behind(3).await;
    let engine = bench.open_on(Arc::new(Watched::new(bench.store.clone(), Closed))).await;
    engine.register(quick(&trace)).unwrap();
    tokio::time::sleep(LONG).await;
    let mut told: Vec<SagaId> = engine.stalled().iter().map(|stalled| stalled.saga).collect();
    told.sort();
    sagas.sort();
    assert_eq!(told, sagas);
}

#[tokio::test(start_paused = true)]
async fn sagas_that_wait_for_the_store_are_stuck_not_stalled() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let mut sagas = bench.left_behind(3).await;
    let store = Arc::new(Watched::new(bench.store.clone(), Away::default()));
    store.from_now.store(true, Ordering::SeqCst);
    let engine = bench.open_on(store.clone()).await;
    engine.register(quick(&trace)).unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!((engine.stalled(), engine.active()), (vec![], 0));
    let mut told = stuck_at(&engine).await;
    told.sort();
    sagas.sort();
    assert_eq!(told, sagas, "since when they wait is not forgotten");

    store.from_now.store(false, Ordering::SeqCst);
    for saga in sagas {
        assert!(end_of(&engine, saga, FOUND).await.succeeded());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_costs_a_hook_none_of_its_tries() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let store = Arc::new(Watched::new(bench.store.clone(), Away::default()));
    let engine = bench.open_on(store.clone()).await;
    engine.register(stuck(&trace, Ok(())).build().unwrap()).unwrap();
    store.from_now.store(true, Ordering::SeqCst);
    engine.start("s", &()).await.unwrap();
    // Longer than all attempts of a hook take.
    tokio::time::sleep(LONG).await;
    assert!(store.refused.load(Ordering::SeqCst) > 10 && trace.count("told failed") == 0);
    store.from_now.store(false, Ordering::SeqCst);
    trace.until("told failed", 1).await;
}

#[tokio::test(start_paused = true)]
async fn hook_of_an_unreadable_saga_fails_with_an_alert() {
    let (bench, trace) = (Bench::new(), Trace::default());
    let engine = bench.open_with(stuck(&trace, Err(StepError::not_done("busy"))).build().unwrap()).await;
    let saga = engine.start("s", &()).await.unwrap().id();
    trace.until("told failed", 1).await;
    shut_down(engine).await;

    let (engine, faulty) =
        bench.open_faulty_with(Fault::Unanswered(saga), stuck(&trace, Ok(())).build().unwrap()).await;
    tokio::time::sleep(LONG).await;
    assert!(faulty.fired() < 20, "it is not asked for ever: {}", faulty.fired());
    assert_eq!(trace.count("told failed"), 1);
    let given_up = |alert: &Value| alert["alert"] == "hook_failed";
    let alerts = bench.store.messages(&Listing::default(), 10).await.unwrap();
    let alerts: Vec<Value> = alerts.iter().map(|kept| kept.message.payload.decode().unwrap()).collect();
    let [alert] = &alerts.iter().filter(|alert| given_up(alert)).collect::<Vec<_>>()[..] else {
        panic!("nobody is told: {alerts:?}")
    };
    assert!(alert["error"].to_string().contains("disk I/O error"), "{alert}");
    shut_down(engine).await;
}

#[tokio::test(start_paused = true)]
async fn panicking_hook_fails_with_its_message() {
    let bench = Bench::new();
    let saga = Saga::builder("s").step(Step::new("a", |_: Context<Value>| async { Ok(()) }));
    let saga = saga.on_success(|ended| async move { panic!("no room for {}", ended.status) });
    let engine = bench.open_with(saga.build().unwrap()).await;
    engine.start("s", &()).await.unwrap();
    let begun = Instant::now();
    let job = loop {
        let job = bench.store.job(1).await.unwrap().filter(|job| job.last_error.is_some());
        if let Some(job) = job {
            break job;
        }
        assert!(begun.elapsed() < LONG, "the hook was not called");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(job.last_error.as_deref(), Some("the hook panicked: no room for succeeded"));
}
