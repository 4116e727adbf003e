//! What is told about what happens: logs, metrics and traces.

mod counting;
mod logs;
mod metrics;
mod requests;
mod traces;

pub(crate) use counting::count_events;
pub use logs::{Telling, tell};
pub(crate) use metrics::Metrics;
pub(crate) use requests::observe;
