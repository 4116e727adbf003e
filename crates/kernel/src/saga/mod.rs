//! The saga machine: steps with their compensations, run forward or rolled back.

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
pub mod state;
mod status;
mod transition;

pub use audit::{Violation, audit};
pub use decide::{decide, start};
pub use definition::{Definition, Step};
pub use draft::{Draft, DraftStep, Problem, Problems};
pub use event::{Event, Phase, Recorded, Resolution};
pub use input::{Decision, Effect, Input, Now, Outcome, Rejected, Start};
pub use state::{State, Status, StepState, StepStatus};

/// After this many interruptions (crash, shutdown, take-over) a step is not run again: whatever it does, the
/// process does not survive it. An action is then in doubt and rolled back; a compensation is parked.
pub const MAX_INTERRUPTIONS: u32 = 5;
