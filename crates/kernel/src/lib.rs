//! The pure part of Backstitch: what a saga is, and what it may do next.
//!
//! Nothing here reads a clock, draws random numbers, does I/O or waits. Every decision is a function of the state, one
//! input and
//! the given time, so live execution, recovery and replay in tests use the same code. Start reading at
//! [`saga::decide`].

pub mod delivery;
pub mod error;
pub mod failpoints;
mod fingerprint;
pub mod id;
pub mod idempotency;
pub mod lease;
pub mod lifecycle;
pub mod mistakes;
pub mod name_pattern;
pub mod payload;
pub mod performer;
pub mod retry;
mod row;
pub mod saga;
pub mod time;
pub mod topic;
mod written_duration;

pub use error::{ErrorKind, StepError};
pub use id::{SagaId, StepId};
pub use mistakes::{Problem, Problems};
pub use payload::Payload;
pub use performer::Performer;
pub use retry::{Backoff, Retry};
pub use time::Timestamp;
pub use written_duration::parse_duration;
