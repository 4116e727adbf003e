//! Messages to the world, written with the decision that causes them and sent afterwards.

use backstitch_kernel::{Payload, Timestamp};

/// The topic of messages to whoever looks after this installation.
pub const ALERTS: &str = "backstitch.alerts";

/// A message to be written with a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Where it goes.
    pub topic: String,
    /// Receivers tell a repeated message by it; unique in its topic.
    pub idempotency_key: String,
    /// Messages with the same one arrive in order.
    pub ordering_key: Option<String>,
    /// What it says.
    pub payload: Payload,
}

/// A message somebody has just claimed for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its number.
    pub id: i64,
    /// Tells this claim from a later one.
    pub lock: i64,
    /// What to send.
    pub message: NewMessage,
    /// Sends finished so far.
    pub attempts: u32,
    /// A sender before us took it and never came back, so it may have been sent already.
    pub in_doubt: bool,
}

/// What became of a claimed message.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The message.
    pub id: i64,
    /// The claim.
    pub lock: i64,
    /// What happened.
    pub report: Report,
}

/// What happened to a message.
#[derive(Clone, Debug)]
pub enum Report {
    /// The other side has it.
    Delivered,
    /// It is tried again then.
    Retry {
        /// When.
        at: Timestamp,
        /// Why.
        error: String,
    },
    /// It is given up.
    Aborted {
        /// Why.
        error: String,
    },
}
