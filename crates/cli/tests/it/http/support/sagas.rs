//! Sagas to call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstitch::{Context, Engine, Retry, Saga, Step, StepError, Undo};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What steps wait for and look at.
#[derive(Clone)]
pub(crate) struct Switches {
    gate: Arc<Semaphore>,
    undo_works: Arc<AtomicBool>,
}

impl Switches {
    /// Lets one saga `gated` pass.
    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    /// From now on the compensation of `stuck` works.
    pub(crate) fn repair_undo(&self) {
        self.undo_works.store(true, Ordering::SeqCst);
    }
}

/// - `greet` succeeds with a greeting.
/// - `doomed` is rolled back: its second step says no.
/// - `gated` waits at its gate, after a first step.
/// - `stuck` cannot be rolled back until it is repaired.
/// - `wordy` has a log of 16 MiB.
pub(crate) fn register(engine: &Engine) -> Switches {
    let switches =
        Switches { gate: Arc::new(Semaphore::new(0)), undo_works: Arc::new(AtomicBool::new(false)) };
    let sagas =
        [greet(), doomed(), gated(switches.gate.clone()), stuck(switches.undo_works.clone()), wordy()];
    for saga in sagas {
        engine.register(saga).unwrap();
    }
    switches
}

fn greet() -> Saga {
    let hello = Step::new("hello", |ctx: Context<Value>| async move {
        Ok(json!({ "greeting": format!("hello {}", ctx.input()["name"].as_str().unwrap_or("you")) }))
    });
    Saga::builder("greet").step(hello).build().unwrap()
}

fn reserve() -> Step<Value, String> {
    Step::new("reserve", |_: Context<Value>| async { Ok("r-1".to_owned()) })
}

fn charge() -> Step<Value, ()> {
    Step::new("charge", |_: Context<Value>| async {
        Err::<(), _>(StepError::refused("the card is declined").with_code("CARD_DECLINED").into())
    })
}

fn doomed() -> Saga {
    let reserve = reserve().compensate(|_, _: Undo<String>| async { Ok(()) });
    Saga::builder("doomed").step(reserve).step(charge()).build().unwrap()
}

fn gated(gate: Arc<Semaphore>) -> Saga {
    let wait = Step::new("wait", move |_: Context<Value>| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.map_err(|_| StepError::not_done("the gate is gone"))?.forget();
            Ok(())
        }
    });
    let reserve = reserve().compensate(|_, _: Undo<String>| async { Ok(()) });
    Saga::builder("gated").step(reserve).step(wait).build().unwrap()
}

fn stuck(undo_works: Arc<AtomicBool>) -> Saga {
    let reserve = reserve()
        .compensate(move |_, _: Undo<String>| {
            let works = undo_works.load(Ordering::SeqCst);
            async move { if works { Ok(()) } else { Err(StepError::not_done("the service is gone").into()) } }
        })
        .compensation_retry(Retry::fixed(0, Duration::from_millis(1)));
    Saga::builder("stuck").step(reserve).step(charge()).build().unwrap()
}

fn wordy() -> Saga {
    let step = |number: usize| {
        Step::new(format!("words-{number}"), |_: Context<Value>| async { Ok("w".repeat(250_000)) })
    };
    (0..64).fold(Saga::builder("wordy"), |saga, number| saga.step(step(number))).build().unwrap()
}
