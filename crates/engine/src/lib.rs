//! Durable sagas: work that spans several services either finishes or is undone, whatever crashes in between.
//!
//! A [`Saga`] is a list of [`Step`]s, each an action and the compensation that undoes it. An [`Engine`] runs sagas
//! and writes every decision to its store before anything comes of it; so when the process dies, the next one goes
//! on where it was. When a step fails, what the earlier ones did is undone, last one first.
//!
//! ```
//! use backstitch::{Context, Engine, Retry, Saga, Step, StepError, StepResult, Undo, secs};
//!
//! async fn reserve(ctx: Context<u32>) -> StepResult<String> {
//!     // The key is the same on every attempt, so that the service can tell a repeated call.
//!     Ok(format!("{} items reserved under {}", ctx.input(), ctx.idempotency_key()))
//! }
//!
//! async fn release(_: Context<u32>, undo: Undo<String>) -> StepResult<()> {
//!     println!("releasing {:?}, because {}", undo.result, undo.error);
//!     Ok(())
//! }
//!
//! async fn charge(ctx: Context<u32>) -> StepResult<u32> {
//!     let _reservation: String = ctx.result("reserve")?;
//!     Err(StepError::refused("the card is declined").with_code("CARD_DECLINED").into())
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::in_memory().await?; // or Engine::open("sqlite:orders.db"), or postgres://…
//! let purchase = Saga::builder("purchase")
//!     .step(Step::new("reserve", reserve).compensate(release).timeout(secs(30)))
//!     .step(Step::new("charge", charge).retry(Retry::exponential(3, secs(1))))
//!     .build()?;
//! engine.register(purchase)?;
//!
//! let run = engine.start("purchase", &3).await?; // on disk once this returns
//! let ended = run.outcome().await?;
//! assert_eq!(ended.status.as_str(), "compensated");
//! assert_eq!(ended.error.and_then(|error| error.code).as_deref(), Some("CARD_DECLINED"));
//! # Ok(())
//! # }
//! ```
//!
//! What a step must hold to: an action may run twice, so it hands [`Context::idempotency_key`] to the service it
//! calls; a compensation may run twice, and also before or without its action having taken effect. The module
//! [`testing`] tries all of that on your sagas.
//!
//! An error that a step passes on with `?` leaves the outcome unknown, so the step is compensated if its retries fail.
//! [`StepError::not_done`] and [`StepError::refused`] say that the step had no effect.

mod call;
pub mod clock;
mod context;
mod declared;
mod defaults;
mod definitions;
pub mod delivery;
mod documents;
mod engine;
mod error;
mod event_handlers;
mod event_view;
pub mod group_commit;
mod in_transaction;
pub mod inbox;
mod insight;
mod inspect;
mod limit;
mod options;
pub mod outbox;
mod registry;
pub mod retention;
mod rfc3339;
mod run;
mod runtime;
mod saga;
mod start;
mod step_failure;
pub mod store;
mod stuck_steps;
#[cfg(feature = "sqlite")]
pub mod testing;
mod view;
pub mod watch;
mod work;

pub use backstitch_kernel as kernel;
#[cfg(feature = "planted-bugs")]
pub use backstitch_kernel::failpoints;
pub use backstitch_kernel::saga::{
    Draft, DraftStep, Event, Performer, Phase, Problem, Problems, Recorded, Resolution, Status, StepStatus,
};
pub use backstitch_kernel::{Backoff, ErrorKind, Payload, Retry, SagaId, StepError, StepId, Timestamp};
pub use context::{Context, Undo};
pub use declared::{Attempt, Caller};
pub use defaults::Defaults;
pub use definitions::Applied;
pub use documents::{Declaring, DocumentKind, Documents};
pub use engine::{Engine, STUCK_AFTER, Stats};
pub use error::Error;
pub use event_handlers::EventSubscription;
pub use event_view::{ErrorView, EventView};
pub use insight::{Insight, StepPlan};
pub use limit::{KeyedLimits, Limit, LimitPermit, LimitScope};
pub use options::Options;
pub use outbox::{Announced, NoSuchEvent, sink};
pub use rfc3339::Rfc3339;
pub use run::{Accepted, Run};
pub use runtime::{ArrivingAnswers, FullLimit, StalledSaga};
pub use saga::{Builder, Saga, Step};
pub use start::{MAX_ATTRIBUTES, MAX_LABEL, Starting};
pub use step_failure::{StepFailure, StepResult};
pub use store::{Cursor, Filter, Health, Page, StuckStep, Summary};
pub use view::{SagaState, StepView};
pub use watch::{Gap, SagaEvent};
pub use work::{Answered, Desk, ExtendedLease, Offers, Subject, Work};

/// Compiles what the README shows.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles what the guide shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/first-saga-in-rust.md")]
struct FirstSaga;

/// This many seconds.
///
/// ```
/// assert_eq!(backstitch::secs(2), std::time::Duration::from_secs(2));
/// ```
#[must_use]
pub const fn secs(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}
