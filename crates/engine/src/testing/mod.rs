//! Tests for your own sagas: does every way through them end clean?
//!
//! A saga is right when each of its steps can fail, each of its actions and compensations can be done twice, and
//! the process can die between any two of its decisions, and still everything is either done once or undone.
//! [`assert_unwinds_from_every_step`] tries all of that on your saga, with the services it calls faked by you.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::sync::{Arc, Mutex};
//!
//! use backstitch::testing::assert_unwinds_from_every_step;
//! use backstitch::{Context, Saga, Step, Undo};
//!
//! /// Stands for a service: it remembers charges by their key, so that a repeated one is the same one.
//! #[derive(Clone, Default)]
//! struct Bank(Arc<Mutex<BTreeSet<String>>>);
//!
//! fn purchase(bank: &Bank) -> Saga {
//!     let (charging, refunding) = (bank.clone(), bank.clone());
//!     Saga::builder("purchase")
//!         .step(
//!             Step::new("charge", move |ctx: Context<u32>| {
//!                 let bank = charging.clone();
//!                 async move {
//!                     bank.0.lock().unwrap().insert(ctx.saga_id().to_string());
//!                     Ok(*ctx.input())
//!                 }
//!             })
//!             .compensate(move |ctx, _: Undo<u32>| {
//!                 let bank = refunding.clone();
//!                 async move {
//!                     bank.0.lock().unwrap().remove(&ctx.saga_id().to_string());
//!                     Ok(())
//!                 }
//!             }),
//!         )
//!         .step(Step::new("ship", |_: Context<u32>| async { Ok(()) }))
//!         .build()
//!         .unwrap()
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let bank = Bank::default();
//! assert_unwinds_from_every_step(
//!     || purchase(&bank),
//!     &42,
//!     |report| {
//!         let charges = std::mem::take(&mut *bank.0.lock().unwrap());
//!         assert_eq!(charges.len(), usize::from(report.ended.succeeded()));
//!     },
//! )
//! .await;
//! # }
//! ```

mod calls;
mod halting;
mod rig;
mod scenario;
mod verdict;

use std::panic::{AssertUnwindSafe, catch_unwind};

use backstitch_kernel::saga::Recorded;
use backstitch_kernel::{Payload, StepId};
use serde::Serialize;

pub use backstitch_kernel::saga::Phase;
pub use calls::Called;
pub use scenario::{Crash, Moment, Plot, Scenario};

use crate::saga::Saga;
use crate::view::SagaState;

/// What came of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// What was done to the saga.
    pub scenario: Scenario,
    /// The saga at its end.
    pub ended: SagaState,
    /// Its log.
    pub log: Vec<Recorded>,
    /// The actions and compensations that were called, in the order of the calls. An action that was made to
    /// refuse is listed too, though your code did not see the call.
    pub calls: Vec<Called>,
}

impl Report {
    /// How often this phase of a step was called.
    #[must_use]
    pub fn calls_of(&self, step: &str, phase: Phase) -> usize {
        self.calls.iter().filter(|call| call.step.as_str() == step && call.phase == phase).count()
    }
}

/// Runs a saga through everything that can happen to it, each time on a store of its own:
///
/// - it succeeds;
/// - each step in turn refuses, and exactly the earlier ones are undone;
/// - the answer of each step in turn is lost for good after the step took effect, as when `?` passes on a lost
///   connection, and the step is undone too;
/// - and in each of these the process dies before and after every single commit, so that every action and every
///   compensation is also run twice, and another engine takes the saga up from the store.
///
/// Each run has to end in `succeeded` or `compensated`, as its scenario demands, with its calls in order and a
/// log that breaks no invariant. After each, `check_clean` looks at your fakes: nothing may be left of a saga that
/// was rolled back, and one that succeeded was done once. It is a good place to reset the fakes for the next run.
///
/// `saga` builds the same saga every time it is called: a process that has died needs a new one. `on_success` and
/// `on_failure` are left out, and waits between attempts are shortened to a millisecond. Under tokio's paused time
/// (`#[tokio::test(start_paused = true)]`) nothing else waits either.
///
/// See the [module](self) for an example.
///
/// # Panics
/// When a run does not end clean; the message names the scenario and how to run it alone with
/// [`assert_ends_clean`].
pub async fn assert_unwinds_from_every_step<T: Serialize + ?Sized>(
    saga: impl Fn() -> Saga,
    input: &T,
    check_clean: impl Fn(&Report),
) {
    let input = encode(input);
    let steps: Vec<StepId> = saga().definition().steps().iter().map(|step| step.id.clone()).collect();
    for plot in Plot::all(&steps) {
        let plain = Scenario { plot: plot.clone(), crash: None };
        run_and_judge(&saga, &input, &plain, &check_clean).await;
        for commit in 1.. {
            let mut died = false;
            for crash in Crash::at(commit) {
                let scenario = Scenario { plot: plot.clone(), crash: Some(crash) };
                died |= run_and_judge(&saga, &input, &scenario, &check_clean).await;
            }
            if !died {
                break;
            }
        }
    }
}

/// Runs a saga through one scenario, as [`assert_unwinds_from_every_step`] does through all of them.
///
/// ```
/// # use backstitch::testing::{assert_ends_clean, Scenario};
/// # use backstitch::{Context, Saga, Step};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let saga = || Saga::builder("one").step(Step::new("only", |_: Context<()>| async { Ok(()) })).build().unwrap();
/// assert_ends_clean(saga, &(), &Scenario::refused_at("only").dying_after(1), |_| {}).await;
/// # }
/// ```
///
/// # Panics
/// When the run does not end clean.
pub async fn assert_ends_clean<T: Serialize + ?Sized>(
    saga: impl Fn() -> Saga,
    input: &T,
    scenario: &Scenario,
    check_clean: impl Fn(&Report),
) {
    run_and_judge(&saga, &encode(input), scenario, &check_clean).await;
}

/// Whether the process died as the scenario wanted it to: not if there were not that many commits.
async fn run_and_judge(
    saga: &impl Fn() -> Saga,
    input: &Payload,
    scenario: &Scenario,
    check_clean: &impl Fn(&Report),
) -> bool {
    let fail = |problem: &str| -> ! {
        panic!(
            "saga `{}` does not end clean when {scenario}: {problem}\n\
             to run this alone: assert_ends_clean(saga, &input, &{}, check_clean)",
            saga().definition().name(),
            scenario.in_code(),
        )
    };
    let (report, died) = match rig::run(saga, input, scenario).await {
        Ok(ran) => ran,
        Err(problem) => fail(&problem),
    };
    let problems = verdict::problems(saga().definition(), &report);
    if !problems.is_empty() {
        fail(&format!("{}\n{}", problems.join("; "), verdict::story(&report)));
    }
    // Caught only to say which scenario it was: a check's own message knows nothing of it.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check_clean(&report))) {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no");
        fail(&format!("check_clean says: {said}\n{}", verdict::story(&report)));
    }
    died
}

fn encode<T: Serialize + ?Sized>(input: &T) -> Payload {
    match Payload::encode(input) {
        Ok(input) => input,
        Err(why) => panic!("the input has no JSON form: {why}"),
    }
}
