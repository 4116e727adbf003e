//! Whoever counts what the outbox does.

use std::time::Duration;

/// One send of a message, finished.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The message's topic.
    pub topic: &'a str,
    /// What the sink is called.
    pub adapter: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// How long ago the message was written.
    pub age: Duration,
}

/// What came of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other side has it.
    Sent,
    /// It is tried again.
    Failed,
    /// It is given up.
    Aborted,
}

/// Hears of what the outbox does. It is called between sends and must not wait.
pub trait Observer: Send + Sync + 'static {
    /// So many messages of a topic were written. Each is told once, to one process of all that share a database: what is
    /// [published](crate::Engine::publish) as soon as it is on disk, and what sagas, SQL or somebody's own transaction wrote
    /// when it is first taken up, since nobody hears of it before.
    fn enqueued(&self, _topic: &str, _messages: u64) {}

    /// A send is finished and on disk.
    fn attempted(&self, _attempt: &Attempt<'_>) {}

    /// So many messages were given up because their time ran out before they were sent.
    fn expired(&self, _messages: u64) {}

    /// So many messages were taken over from senders that never came back.
    fn taken_over(&self, _messages: u64) {}
}

/// Nobody counts.
pub(crate) struct Nobody;

impl Observer for Nobody {}
