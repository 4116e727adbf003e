//! The outbox: what is to be said to the world is written with the decision that causes it, and sent afterwards.

mod announced;
mod claims;
mod looking;
mod observer;
mod publish;
mod publisher;
mod relay;
mod relay_waker;
mod retention;
mod route;
pub mod sink;
mod topic_pattern;

pub use announced::{Announced, NoSuchEvent};
pub(crate) use observer::Nobody;
pub use observer::{Attempt, Observer, Outcome};
pub use publish::{Publishing, Receiving, digest};
pub(crate) use publisher::{Publisher, start as start_publisher};
pub(crate) use relay::relay;
pub use relay_waker::RelayWaker;
pub use retention::Retention;
pub use route::{Route, Routes};
pub use topic_pattern::{BadTopicPattern, TopicPattern};
