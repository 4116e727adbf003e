//! How much runs at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use backstitch::clock::{Clock, TokioClock};
use backstitch::{
    Context, Engine, Event, LimitScope, Retry, Saga, Status, Step, StepError, StepStatus, Timestamp, secs,
};
use tokio::sync::Semaphore;

use crate::runtime::support::*;

/// Counts who is inside at once.
#[derive(Clone, Default)]
struct Gauge(Arc<Mutex<(usize, usize)>>);

impl Gauge {
    fn step(&self, id: &'static str) -> Step<serde_json::Value, ()> {
        let gauge = self.clone();
        Step::new(id, move |_: Context<serde_json::Value>| {
            let gauge = gauge.clone();
            async move {
                {
                    let mut inside = gauge.0.lock().unwrap();
                    inside.0 += 1;
                    inside.1 = inside.1.max(inside.0);
                }
                tokio::time::sleep(secs(1)).await;
                gauge.0.lock().unwrap().0 -= 1;
                Ok(())
            }
        })
    }

    fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }

    /// Counts anew, from those who are inside.
    fn forget_the_most(&self) {
        let mut inside = self.0.lock().unwrap();
        inside.1 = inside.0;
    }
}

async fn run_many(engine: &Engine, count: usize) {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(start(engine, "s").await);
    }
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_runs_only_so_many_sagas_at_once_and_the_others_wait() {
    let gauge = Gauge::default();
    let bench = Bench::with(|options| options.max_active = 3);
    let engine = bench.open_with(Saga::builder("s").step(gauge.step("a")).build().unwrap()).await;
    run_many(&engine, 20).await;
    assert_eq!(gauge.most(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_its_turn_is_on_disk_and_can_be_cancelled() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let engine = bench
        .open_with(Saga::builder("long").step(hanging("a", &trace).timeout(secs(100))).build().unwrap())
        .await;
    engine.register(Saga::builder("s").step(noting("b", &trace)).build().unwrap()).unwrap();
    start(&engine, "long").await;
    let waiting = start(&engine, "s").await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!(engine.load(waiting.id()).await.unwrap().unwrap().status, Status::Pending);
    engine.cancel(waiting.id(), "too slow").await.unwrap();
    let ended = waiting.outcome().await.unwrap();
    assert_eq!(ended.status, Status::Compensated);
    assert_eq!(trace.count("do b"), 0, "it never began");
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_its_turn_survives_the_process() {
    let trace = Trace::default();
    let bench = Bench::with(|options| options.max_active = 1);
    let long = || Saga::builder("long").step(hanging("a", &trace).timeout(secs(100))).build().unwrap();
    let short = || Saga::builder("s").step(noting("b", &trace)).build().unwrap();
    let engine = bench.open_with(long()).await;
    engine.register(short()).unwrap();
    start(&engine, "long").await;
    let waiting = start(&engine, "s").await.id();
    drop(engine);
    let engine = bench.open_with(short()).await;
    assert!(engine.find(waiting).await.unwrap().outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn a_step_runs_only_so_many_times_at_once_across_sagas_and_versions() {
    let (limited, free) = (Gauge::default(), Gauge::default());
    let saga = |version| {
        let saga = Saga::builder("s").version(version).step(free.step("free"));
        saga.step(limited.step("limited").concurrency(2)).build().unwrap()
    };
    let engine = engine_with(saga(1)).await;
    let old: Vec<_> = futures::future::join_all((0..5).map(|_| start(&engine, "s"))).await;
    engine.register(saga(2)).unwrap();
    run_many(&engine, 5).await;
    for run in old {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert_eq!(limited.most(), 2);
    assert!(free.most() >= 5);
}

/// The most that are inside at once after the second version has come, with sagas of the first under way or not.
async fn most_after_a_change(before: u32, after: u32, under_way: usize) -> usize {
    let (old, new) = (Gauge::default(), Gauge::default());
    let saga = |version, gauge: &Gauge, room| {
        let limited = gauge.step("limited").concurrency(room);
        Saga::builder("s").version(version).step(limited).build().unwrap()
    };
    let engine = engine_with(saga(1, &old, before)).await;
    let old: Vec<_> = futures::future::join_all((0..under_way).map(|_| start(&engine, "s"))).await;
    if let Some(first) = old.first() {
        wait_for_start_of(first, "limited").await;
    }
    engine.register(saga(2, &new, after)).unwrap();
    let waiting: Vec<_> = futures::future::join_all((0..8).map(|_| start(&engine, "s"))).await;
    eventually("some run and others wait", async || new.most() > 0).await;
    // One that says the same changes nothing, whatever the first one said.
    engine.register(saga(3, &new, after)).unwrap();
    run_many(&engine, 8).await;
    for run in old.into_iter().chain(waiting) {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    new.most()
}

#[tokio::test(start_paused = true)]
async fn a_steps_room_grows_and_shrinks_with_the_newest_version() {
    for under_way in [0, 6] {
        assert_eq!(most_after_a_change(1, 3, under_way).await, 3, "{under_way} under way");
        assert_eq!(most_after_a_change(3, 1, under_way).await, 1, "{under_way} under way");
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_beyond_a_smaller_room_is_let_finish_and_counts() {
    let gauge = Gauge::default();
    let saga = |version, room| {
        let limited = gauge.step("limited").concurrency(room);
        Saga::builder("s").version(version).step(limited).build().unwrap()
    };
    let engine = engine_with(saga(1, 3)).await;
    let old: Vec<_> = futures::future::join_all((0..3).map(|_| start(&engine, "s"))).await;
    eventually("all run", async || gauge.most() == 3).await;
    engine.register(saga(2, 1)).unwrap();
    engine.register(saga(3, 2)).unwrap();
    gauge.forget_the_most();
    run_many(&engine, 6).await;
    for run in old {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert_eq!(gauge.most(), 3, "nobody came in before one of the three was gone");
    gauge.forget_the_most();
    run_many(&engine, 6).await;
    assert_eq!(gauge.most(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_waits_for_room_can_be_cancelled() {
    let trace = Trace::default();
    let saga = Saga::builder("s").step(noting("a", &trace)).step(hanging("b", &trace).concurrency(1)).build();
    let engine = engine_with(saga.unwrap()).await;
    let first = start(&engine, "s").await;
    wait_for_start_of(&first, "b").await;
    let second = start(&engine, "s").await;
    eventually("the second waits", async || trace.count("do a") == 2).await;
    engine.cancel(second.id(), "no").await.unwrap();
    let ended = second.outcome().await.unwrap();
    assert_eq!(ended.step("b").unwrap().status, StepStatus::Pending);
    assert_eq!(trace.count("do b"), 1);
}

/// A clock that breaks when it is asked without end: simulated time stands still for a loop that never rests.
#[derive(Default)]
struct CountingClock {
    clock: TokioClock,
    asked: AtomicU64,
}

impl CountingClock {
    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(asked < 100_000, "somebody asks for the time without end");
        self.clock.now()
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_and_waits_for_room_rests_until_there_is_some() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let limited = Step::new("limited", move |_: Context<serde_json::Value>| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match call {
                0 => return Err(StepError::not_done("busy").into()),
                1 => tokio::time::sleep(secs(25)).await,
                _ => {}
            }
            Ok(())
        }
    });
    let limited = limited.concurrency(1).retry(Retry::fixed(1, secs(5)));
    let clock = Arc::new(CountingClock::default());
    let bench = Bench::with(|options| options.clock = clock.clone());
    let engine = bench.open_with(Saga::builder("s").step(limited).build().unwrap()).await;
    let retrying = start(&engine, "s").await;
    wait_for(&retrying, |event| matches!(event, Event::StepRetry { .. })).await;
    let holding = start(&engine, "s").await;
    tokio::time::sleep(secs(10)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2, "the retry is due and has no room");
    let asked = clock.asked();
    assert!(asked < 1000, "asked for the time {asked} times in ten seconds");
    assert!(holding.outcome().await.unwrap().succeeded());
    assert!(retrying.outcome().await.unwrap().succeeded());
}

#[tokio::test(start_paused = true)]
async fn a_saga_with_a_deadline_waits_for_its_turn_and_not_for_its_deadline() {
    let bench = Bench::with(|options| options.max_active = 1);
    let slow = Step::new("slow", |_: Context<serde_json::Value>| async {
        tokio::time::sleep(secs(10)).await;
        Ok(())
    });
    let engine = bench.open_with(Saga::builder("s").step(slow).build().unwrap()).await;
    let (first, begun) = (start(&engine, "s").await, tokio::time::Instant::now());
    let second = engine.start("s", &serde_json::json!({})).deadline_in(secs(3600)).await.unwrap();
    assert!(first.outcome().await.unwrap().succeeded());
    assert!(second.outcome().await.unwrap().succeeded());
    assert!(begun.elapsed() < secs(60), "it was not put off");
}

/// A step that ends when the gate lets it, and notes when it begins.
fn gated(id: &'static str, trace: &Trace, gate: &Arc<Semaphore>) -> Step<serde_json::Value, ()> {
    let (trace, gate) = (trace.clone(), gate.clone());
    Step::new(id, move |_: Context<serde_json::Value>| {
        trace.say(format!("do {id}"));
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(())
        }
    })
    .timeout(secs(36_000))
}

#[tokio::test(start_paused = true)]
async fn sagas_that_wait_for_a_limited_step_take_no_slot() {
    let (trace, gate) = (Trace::default(), Arc::new(Semaphore::new(0)));
    let bench = Bench::with(|options| options.max_active = 2);
    let limited = Saga::builder("limited").step(gated("a", &trace, &gate).concurrency(1)).build().unwrap();
    let engine = bench.open_with(limited).await;
    engine.register(Saga::builder("free").step(noting("b", &trace)).build().unwrap()).unwrap();
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(start(&engine, "limited").await);
    }
    let step = LimitScope::Step { definition: "limited".into(), step: "a".into() };
    eventually("all but one wait", async || {
        engine.full_limits().iter().any(|full| (&full.scope, full.waiting) == (&step, 99))
    })
    .await;
    assert!(execute(&engine, "free").await.succeeded());
    gate.add_permits(100);
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert_eq!(engine.full_limits(), []);
}

#[tokio::test(start_paused = true)]
async fn parallel_step_uses_the_slot_that_its_saga_holds() {
    let (trace, held, limited) = (Trace::default(), Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let bench = Bench::with(|options| options.max_active = 2);
    let beside = gated("beside", &trace, &limited).concurrency(1).depends_on::<&str>([]);
    let saga = Saga::builder("s").step(gated("held", &trace, &held)).step(beside).build().unwrap();
    let engine = bench.open_with(saga).await;
    let runs = [start(&engine, "s").await, start(&engine, "s").await];
    eventually("both hold a slot", async || trace.count("do held") == 2).await;
    assert_eq!(trace.count("do beside"), 1, "the other one waits for room");
    limited.add_permits(1);
    eventually("the other one has room", async || trace.count("do beside") == 2).await;
    held.add_permits(2);
    limited.add_permits(1);
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
}

#[tokio::test(start_paused = true)]
async fn room_passes_on_among_sagas_that_hold_slots() {
    let (trace, held, limited) = (Trace::default(), Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let bench = Bench::with(|options| options.max_active = 4);
    let beside = gated("beside", &trace, &limited).concurrency(1).depends_on::<&str>([]);
    let saga = Saga::builder("s").step(gated("held", &trace, &held)).step(beside).build().unwrap();
    let engine = bench.open_with(saga).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(start(&engine, "s").await);
    }
    eventually("all hold a slot", async || trace.count("do held") == 4).await;
    for begun in 2..=4 {
        limited.add_permits(1);
        eventually("the next one has room", async || trace.count("do beside") == begun).await;
    }
    held.add_permits(4);
    limited.add_permits(1);
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
}

#[tokio::test(start_paused = true)]
async fn sagas_that_wait_for_a_worker_or_a_time_take_no_slot() {
    let trace = Trace::default();
    let calls = Calls::good();
    let bench = Bench::with(|options| {
        options.max_active = 1;
        options.caller = Some(Arc::new(calls.clone()));
    });
    let engine = bench.open().await;
    put(&engine, written("job", [working("build")])).await;
    let retried = acting("a", &trace, |attempt| match attempt {
        1 => Err(StepError::not_done("busy")),
        _ => Ok(()),
    });
    let retried = retried.retry(Retry::fixed(1, secs(30)));
    engine.register(Saga::builder("retried").step(retried).build().unwrap()).unwrap();
    engine.register(Saga::builder("free").step(noting("b", &trace)).build().unwrap()).unwrap();
    let mut retried = Vec::new();
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(start(&engine, "job").await);
        retried.push(start(&engine, "retried").await);
    }
    let begun = tokio::time::Instant::now();
    assert!(execute(&engine, "free").await.succeeded());
    assert!(begun.elapsed() < secs(1), "before any of them went on");
    for _ in 0..5 {
        let mut work = engine.lease_work(&["builders".to_owned()], 1, secs(30), secs(3600)).await.unwrap();
        let work = work.remove(0);
        engine.complete_work(work.job, work.token, backstitch::Payload::null()).await.unwrap();
    }
    for run in jobs.into_iter().chain(retried) {
        assert!(run.outcome().await.unwrap().succeeded());
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_take_turns_in_the_run_queue() {
    let (trace, gate) = (Trace::default(), Arc::new(Semaphore::new(0)));
    let bench = Bench::with(|options| options.max_active = 1);
    let holding = Saga::builder("holding").step(gated("hold", &trace, &gate)).build().unwrap();
    let engine = bench.open_with(holding).await;
    for (name, step) in [("busy", "busy"), ("rare", "rare")] {
        engine.register(Saga::builder(name).step(noting(step, &trace)).build().unwrap()).unwrap();
    }
    let holding = start(&engine, "holding").await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(start(&engine, "busy").await);
    }
    runs.push(start(&engine, "rare").await);
    gate.add_permits(1);
    assert!(holding.outcome().await.unwrap().succeeded());
    for run in runs {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    let place = trace.said().iter().position(|said| said == "do rare").unwrap();
    assert!(place <= 2, "it was behind {place} others");
}

#[tokio::test(start_paused = true)]
async fn rollbacks_run_before_everything_else() {
    let (trace, gate) = (Trace::default(), Arc::new(Semaphore::new(0)));
    let calls = Calls::good();
    let bench = Bench::with(|options| {
        options.max_active = 1;
        options.caller = Some(Arc::new(calls.clone()));
    });
    let holding = Saga::builder("holding").step(gated("hold", &trace, &gate)).build().unwrap();
    let engine = bench.open_with(holding).await;
    put(&engine, written("undone", [calling("paid"), working("build")])).await;
    put(&engine, written("other", [calling("other")])).await;
    let undone = start(&engine, "undone").await;
    wait_for_start_of(&undone, "build").await;
    let holding = start(&engine, "holding").await;
    wait_for_start_of(&holding, "hold").await;
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(start(&engine, "other").await);
    }
    engine.cancel(undone.id(), "no").await.unwrap();
    wait_for(&undone, |event| matches!(event, Event::SagaCompensating { .. })).await;
    gate.add_permits(1);
    assert_eq!(undone.outcome().await.unwrap().status, Status::Compensated);
    for run in others.into_iter().chain([holding]) {
        assert!(run.outcome().await.unwrap().succeeded());
    }
    assert_eq!(calls.trace.said()[..2], ["do paid", "undo paid"], "the rollback came last and went first");
}
