//! Durable sagas: work that spans several services either finishes or is undone, whatever crashes in between.

mod call;
pub mod clock;
mod committer;
mod context;
mod engine;
mod error;
mod in_transaction;
pub mod inbox;
mod inspect;
mod live;
mod options;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod registry;
pub mod relay;
mod run;
mod runtime;
mod saga;
mod start;
pub mod store;
pub mod testing;
mod view;

pub use backstitch_kernel as kernel;
pub use backstitch_kernel::saga::{Event, Problem, Problems, Recorded, Resolution, Status, StepStatus};
pub use backstitch_kernel::{Backoff, ErrorKind, Payload, Retry, SagaId, StepError, StepId, Timestamp};
pub use context::{Context, Undo};
pub use engine::{Engine, STUCK_AFTER, Stats};
pub use error::Error;
pub use options::Options;
pub use run::Run;
pub use runtime::FeedEvent;
pub use saga::{Builder, Saga, Step};
pub use start::{MAX_ATTRIBUTES, MAX_LABEL, Starting};
pub use store::{Cursor, Filter, Health, Page, Summary};
pub use view::{SagaState, StepView};

/// This many seconds.
#[must_use]
pub const fn secs(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}
