//! The saga machine: steps with their compensations, run forward or rolled back.
//!
//! ```
//! use backstitch_kernel::saga::{self, Draft, Input, Now, Outcome, Phase, Start, Status};
//! use backstitch_kernel::{Payload, SagaId, Timestamp};
//!
//! let draft: Draft = serde_json::from_str(r#"{"name": "order", "steps": [{"id": "pay"}]}"#)?;
//! let definition = draft.check()?;
//! let now = Now::at(Timestamp::from_micros(1));
//! let started = saga::start(&definition, Start::default(), now);
//! let mut log = started.events;
//!
//! // The events are durable and the effects performed; now the step's result arrives.
//! let outcome = Outcome::Succeeded(Payload::null());
//! let answer = Input::Finished { step: "pay".into(), phase: Phase::Do, attempt: 1, outcome };
//! let id: SagaId = "01920000-0000-7000-8000-000000000001".parse()?;
//! let decision = saga::decide(&definition, id, &started.state, answer, now)?;
//! log.extend(decision.events);
//!
//! assert_eq!(decision.state.status, Status::Succeeded);
//! assert!(saga::audit(&definition, &log).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advance;
pub mod audit;
mod check;
pub mod codec;
mod decide;
pub mod definition;
pub mod draft;
pub mod event;
mod fold;
mod input;
mod preview;
pub mod state;
mod status;
mod transition;

pub use audit::{Violation, audit};
pub use decide::{accept, decide, decide_within, start, start_within};
pub use definition::{Definition, Step};
pub use draft::{Draft, DraftStep, Performer, Problem, Problems};
pub use event::{Event, Outside, Phase, Recorded, Resolution};
pub use input::{Decision, Effect, Input, Now, Outcome, Rejected, Start};
pub use preview::{Preview, preview};
pub use state::{State, Status, StepState, StepStatus};

/// After this many interruptions (crash, shutdown, adoption) a step is not run again, because it may crash the process.
/// An action is
/// then in doubt and rolled back; a compensation fails.
pub const MAX_INTERRUPTIONS: u32 = 5;
