//! `backstitch::testing` passes good sagas and finds what is wrong with bad ones.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstitch::testing::{Moment, Phase, Plot, Report, Scenario};
use backstitch::testing::{assert_ends_clean, assert_unwinds_from_every_step};
use backstitch::{Context, Retry, Saga, Step, StepError, Undo, secs};
use futures::FutureExt;

/// Stands for the services: what is there, and how often.
#[derive(Clone, Default)]
struct World(Arc<Mutex<BTreeMap<String, i32>>>);

impl World {
    fn add(&self, thing: &str, amount: i32) {
        *self.0.lock().unwrap().entry(thing.to_owned()).or_default() += amount;
    }

    fn set(&self, thing: &str, amount: i32) {
        self.0.lock().unwrap().insert(thing.to_owned(), amount);
    }

    /// Everything must be there once, or not at all; and the next run finds an empty world.
    fn check(&self, report: &Report) {
        let world = std::mem::take(&mut *self.0.lock().unwrap());
        let expected = i32::from(report.ended.succeeded());
        for (thing, amount) in world {
            assert_eq!(amount, expected, "{thing} is there {amount} times");
        }
    }
}

/// A step that makes a thing of its own name, once however often it is called, and takes it away likewise.
fn good(id: &'static str, world: &World) -> Step<(), String> {
    let (making, unmaking) = (world.clone(), world.clone());
    Step::new(id, move |_: Context<()>| {
        let world = making.clone();
        async move {
            world.set(id, 1);
            Ok(id.to_owned())
        }
    })
    .compensate(move |_, _: Undo<String>| {
        let world = unmaking.clone();
        async move {
            world.set(id, 0);
            Ok(())
        }
    })
}

fn chain(world: &World, middle: Step<(), String>) -> Saga {
    let saga = Saga::builder("chain").step(good("first", world)).step(middle).step(good("last", world));
    saga.build().unwrap()
}

/// What is said about a saga with this step in its middle.
async fn complaint(world: &World, middle: impl Fn() -> Step<(), String>) -> String {
    let run = assert_unwinds_from_every_step(|| chain(world, middle()), &(), |report| world.check(report));
    let Err(panic) = AssertUnwindSafe(run).catch_unwind().await else { panic!("the bad saga passes") };
    panic.downcast_ref::<String>().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_good_chain_passes() {
    let world = World::default();
    let runs = Mutex::new(Vec::new());
    let saga = || chain(&world, good("middle", &world));
    assert_unwinds_from_every_step(saga, &(), |report| {
        world.check(report);
        runs.lock().unwrap().push(report.clone());
    })
    .await;
    let runs = runs.into_inner().unwrap();
    let crashes = |moment| {
        let crashes = runs.iter().filter_map(|run| run.scenario.crash);
        crashes.filter(|crash| crash.moment == moment).count()
    };
    assert_eq!(runs.iter().filter(|run| run.scenario.crash.is_none()).count(), 7, "1 + 3 + 3 plots");
    assert!(crashes(Moment::Before) > 20 && crashes(Moment::After) > 20);
    for step in ["first", "middle", "last"] {
        let twice = |phase| runs.iter().any(|run| run.calls_of(step, phase) == 2);
        assert!(twice(Phase::Do) && twice(Phase::Undo), "{step} is never done or undone twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_diamond_passes() {
    let world = World::default();
    let saga = || {
        Saga::builder("diamond")
            .step(good("top", &world))
            .step(good("left", &world).depends_on(["top"]))
            .step(good("right", &world).depends_on(["top"]))
            .step(good("bottom", &world).depends_on(["left", "right"]))
            .compensation_concurrency(2)
            .build()
            .unwrap()
    };
    assert_unwinds_from_every_step(saga, &(), |report| world.check(report)).await;
}

#[tokio::test(start_paused = true)]
async fn a_saga_with_hooks_long_waits_and_an_unreliable_service_passes() {
    let world = World::default();
    let flaky = || {
        let making = world.clone();
        Step::new("middle", move |ctx: Context<()>| {
            let world = making.clone();
            async move {
                tokio::time::sleep(secs(1800)).await;
                if ctx.attempt() == 1 {
                    return Err(StepError::not_done("busy").into());
                }
                world.set("middle", 1);
                Ok(String::new())
            }
        })
        .compensate({
            let world = world.clone();
            move |_, _: Undo<String>| {
                let world = world.clone();
                async move {
                    world.set("middle", 0);
                    Ok(())
                }
            }
        })
        .timeout(secs(3600))
        .retry(Retry::fixed(3, secs(600)))
    };
    let saga = || {
        Saga::builder("slow")
            .step(good("first", &world))
            .step(flaky())
            .on_success(|_| async { Err(StepError::not_done("hooks are not called here").into()) })
            .on_failure(|_| async { Err(StepError::not_done("hooks are not called here").into()) })
            .build()
            .unwrap()
    };
    assert_unwinds_from_every_step(saga, &(), |report| world.check(report)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_time_and_several_threads_do_as_well() {
    let world = World::default();
    let saga = || chain(&world, good("middle", &world));
    assert_unwinds_from_every_step(saga, &(), |report| world.check(report)).await;
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_is_not_idempotent_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        let undone = world.clone();
        good("middle", &world).compensate(move |_, _: Undo<String>| {
            undone.add("middle", -1);
            async { Ok(()) }
        })
    })
    .await;
    assert!(said.contains("middle is there -1 times"), "{said}");
    assert!(said.contains("to run this alone: assert_ends_clean"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_forgets_something_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        let made = world.clone();
        let both = Step::new("middle", move |_: Context<()>| {
            made.set("middle", 1);
            made.set("its invoice", 1);
            async { Ok(String::new()) }
        });
        let undone = world.clone();
        both.compensate(move |_, _: Undo<String>| {
            undone.set("middle", 0);
            async { Ok(()) }
        })
    })
    .await;
    assert!(said.contains("its invoice is there 1 times"), "{said}");
    assert!(said.contains("step `last` refuses"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_needs_a_result_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        let undone = world.clone();
        good("middle", &world).compensate(move |_, undo: Undo<String>| {
            if let Some(thing) = undo.result {
                undone.set(&thing, 0);
            }
            async { Ok(()) }
        })
    })
    .await;
    assert!(said.contains("middle is there 1 times"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_action_with_a_side_effect_before_it_fails_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        let made = world.clone();
        Step::new("middle", move |ctx: Context<()>| {
            made.add("middle", 1);
            async move {
                if ctx.attempt() == 1 { Err(StepError::not_done("busy").into()) } else { Ok(String::new()) }
            }
        })
    })
    .await;
    assert!(said.contains("middle is there 2 times"), "{said}");
    assert!(said.contains("every step succeeds"), "{said}");
    assert!(said.contains("step.retry middle"), "the log is told: {said}");
}

#[tokio::test(start_paused = true)]
async fn an_action_that_is_not_idempotent_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        let made = world.clone();
        Step::new("middle", move |_: Context<()>| {
            made.add("middle", 1);
            async { Ok(String::new()) }
        })
    })
    .await;
    assert!(said.contains("middle is there 2 times") && said.contains(".dying_before("), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_fails_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        good("middle", &world)
            .compensate(|_, _: Undo<String>| async { Err::<(), _>(StepError::refused("too late").into()) })
    })
    .await;
    assert!(said.contains("ends `failed` instead of `compensated`"), "{said}");
    assert!(said.contains("the compensation of step `middle` fails: too late"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_never_ends_is_found() {
    let world = World::default();
    let said = complaint(&world, || {
        Step::new("middle", |_: Context<()>| async { Ok(std::future::pending::<String>().await) })
            .timeout(Duration::from_secs(1))
    })
    .await;
    assert!(said.contains("ends `compensated` instead of `succeeded`"), "{said}");
    assert!(said.contains("no answer within 1000 ms"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn one_scenario_can_be_run_alone() {
    let world = World::default();
    let saga = || chain(&world, good("middle", &world));
    let scenario = Scenario::answer_lost_at("middle").dying_before(3);
    let seen = Mutex::new(None);
    assert_ends_clean(saga, &(), &scenario, |report| *seen.lock().unwrap() = Some(report.clone())).await;
    let report = seen.into_inner().unwrap().unwrap();
    assert_eq!(report.scenario, scenario);
    assert_eq!(report.ended.failed_step.unwrap().as_str(), "middle");
    assert!(matches!(report.scenario.plot, Plot::AnswerLostAt(_)));
}
