//! What is told about what happens: logs, metrics and traces.

mod durations;
mod logs;
mod metrics;
mod prefixed;
mod process;
mod queues;
mod requests;
mod traces;

pub(crate) use durations::{Durations, since_start};
pub use logs::{Telling, tell};
pub(crate) use metrics::{Measured, Metrics, OutboxAge, UPKEEP};
pub(crate) use queues::queue_depths;
pub(crate) use requests::{answer_or_problem, observe};
