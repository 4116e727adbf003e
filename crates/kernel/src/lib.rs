//! The pure part of Backstitch: what a saga is, what it may do next and why.
//!
//! Nothing here reads a clock, draws a random number, opens a file or waits. Every decision is a function of
//! the state, one input and the time it is given, so running live, recovering from a crash and replaying a log
//! in a test are the same code. See [`saga::decide`] for the page that explains the product.

pub mod delivery;
pub mod error;
pub mod id;
pub mod idempotency;
pub mod lease;
pub mod payload;
pub mod planted;
pub mod retry;
pub mod saga;
pub mod time;

pub use error::{ErrorKind, StepError};
pub use id::{SagaId, StepId};
pub use payload::Payload;
pub use retry::{Backoff, Retry};
pub use time::Timestamp;
