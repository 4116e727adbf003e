//! What is told about what happens: logs, metrics and traces.

mod logs;
mod metrics;
mod requests;
mod traces;

pub use logs::{Telling, tell};
pub(crate) use metrics::{Measured, Metrics, OutboxAge, UPKEEP};
pub(crate) use requests::{answer_or_problem, observe};
