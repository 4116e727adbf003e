//! Following logs: one log from a position on, or everything that this process writes.
//!
//! | type | what it does | a reader that falls behind |
//! |---|---|---|
//! | [`Watchers`] | wakes the readers of a log when it grows here, and polls for what other nodes write | reads the log: [`Watchers::follow`] gives every event after a position, once and in order |
//! | `EventQueue` | every saga event of this process, for [`Engine::events`](crate::Engine::events) and handlers | gets the rest from the logs, up to a million commits; a [`Gap`] beyond |
//! | [`Broadcast`] | everything, sorted by [`EventFilter`] and encoded once for all subscribers | gets a [`Gap`] |
//!
//! A [`LogSource`] is what can be followed: it reads a log after a position and knows which event ends it.

mod broadcast;
mod event_queue;
mod event_reader;
mod log_source;
mod log_stream;
mod poll;
mod recent_events;
mod saga_event;
mod saga_log;
mod watchers;

pub use broadcast::{Broadcast, EventFilter, Subscription};
pub use log_source::{LogEnd, LogEvent, LogSource};
pub use saga_event::{Gap, SagaEvent};
pub use watchers::Watchers;

pub(crate) use event_queue::EventQueue;
pub(crate) use event_reader::{EventReader, EventReaders};
pub(crate) use poll::{Polls, poll_idle_logs};
pub(crate) use saga_log::SagaLog;
pub(crate) use watchers::LogWriter;
