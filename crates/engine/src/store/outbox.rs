//! Messages to the world, written with the decision that causes them and sent afterwards.

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::{Payload, Timestamp};

use super::Error;
use super::sealed::Sealed;
use crate::outbox::sink::Undelivered;

/// The queue of outbox messages that the relay sends.
#[async_trait]
pub trait OutboxStore: Sealed {
    /// The topics that have messages to send, now or later.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error>;

    /// Claims due messages, as many of each topic as its share, oldest first; `sender` is the node that sends them. A message
    /// behind another of its ordering key is not claimed.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error>;

    /// Records the results of claimed messages, each only if its lock is still the newest, and settles the idempotency keys
    /// of those that are final.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error>;

    /// Requeues up to `limit` messages whose lease has expired, and aborts as many that are too old to be sent.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error>;

    /// How long messages that are not sent yet have been waiting.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn outbox_ages(&self) -> Result<Ages, Error>;
}

/// The topic of messages to whoever looks after this installation.
pub const ALERTS: &str = "backstitch.alerts";

/// The topic of what happens to sagas, as far as it is [announced](crate::Announced).
pub const SAGAS: &str = "backstitch.sagas";

/// Why a message that was not sent in time is given up.
pub const TOO_LATE: &str = "it was not sent before it expired";

/// The error code of a message that is given up because it cannot be read.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const UNREADABLE: &str = "UNREADABLE";

/// Tells of a message that cannot be read; how it ends.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn unreadable(id: i64, lock: i64, why: &dyn std::fmt::Display) -> Sent {
    tracing::error!(message = id, %why, "an outbox message cannot be read: it is aborted");
    Sent { id, lock, report: Report::Aborted(Undelivered::new(UNREADABLE, why.to_string())) }
}

/// The number that stands for a message that was removed for its age.
pub const REMOVED: i64 = 0;

/// Where the ledger keeps the keys of a topic.
#[must_use]
pub fn scope(topic: &str) -> String {
    format!("outbox/{topic}")
}

/// A message to be written.
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
    /// Not sent any more from then on.
    pub expires_at: Option<Timestamp>,
}

/// A message whose key the ledger keeps: asked for twice, it is written once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The message.
    pub message: NewMessage,
    /// What tells the same request from another one.
    pub digest: Digest,
    /// It is given up this long after it is written, by the store's clock; without it, when the message says.
    pub expires_in: Option<Duration>,
    /// The pattern of the topics across which the ordering key holds; without it, the message's own topic alone.
    pub ordering_scope: Option<String>,
}

/// What became of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is written, under this number.
    Accepted(i64),
    /// It was there: the newest message of its key, or [`REMOVED`].
    Replay(i64),
    /// The key belongs to another request.
    Conflict {
        /// The newest message of that request.
        id: i64,
        /// The digest of that request.
        digest: Digest,
        /// When it came.
        at: Timestamp,
    },
    /// Somebody's open transaction holds the key: what becomes of it is known when that ends.
    Held,
    /// It cannot be kept as it is.
    Refused(String),
}

/// Messages that are counted to tell the ages of those that are not out.
pub const AGED: usize = 10_000;

/// How far behind the outbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// When the oldest message was written that is not out.
    pub oldest: Option<Timestamp>,
    /// One in twenty of those that are not out was written before: their age at the 95th percentile. Of more than
    /// [`AGED`] only the oldest so many count, so that it is rather too old then.
    pub old: Option<Timestamp>,
}

/// Messages of a topic that a claim looks at, at most, for some that are behind no other of their ordering key.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const LOOK_AHEAD: usize = 1024;

/// A topic with messages to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The topic.
    pub topic: String,
    /// How long it is until the first of them is due, by the store's own clock; nothing when it is.
    pub due_in: Duration,
    /// How long the first of them has been due; nothing when it is not yet.
    pub late: Duration,
}

/// How many messages of a topic somebody wants to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The topic.
    pub topic: String,
    /// At most so many.
    pub limit: usize,
    /// How long they are the sender's.
    pub lease: Duration,
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
    /// When it was written.
    pub created_at: Timestamp,
    /// Whoever wrote it has not counted it, and nobody had it before.
    pub uncounted: bool,
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
    /// The other side has it, and answered this.
    Delivered(Option<Payload>),
    /// It is tried again later.
    Retry {
        /// How long it waits from now on, by the store's own clock.
        after: Duration,
        /// Why.
        error: Undelivered,
    },
    /// It is given up.
    Aborted(Undelivered),
    /// Nothing was sent: it is due as before.
    GivenBack,
}

/// What was found that nobody looked after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Messages whose sender never came back; they are due again, in doubt.
    pub abandoned: u64,
    /// Messages given up because they were not sent in time.
    pub expired: Vec<Expired>,
}

/// A message given up because it was not sent in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Where it was to go.
    pub topic: String,
    /// By which receivers would have known it.
    pub idempotency_key: String,
    /// Sends finished until then.
    pub attempts: u32,
    /// Whoever wrote it has not counted it, and nobody ever had it.
    pub uncounted: bool,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits to be sent.
    Pending,
    /// A sender has it.
    Sending,
    /// The last send failed; the next one waits for its time.
    Failed,
    /// The other side has it.
    Succeeded,
    /// It is given up.
    Aborted,
}

impl Status {
    /// Every status there is.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Sending, Self::Failed, Self::Succeeded, Self::Aborted];

    /// As the table spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
            Self::Aborted => "aborted",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Nothing follows.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Aborted)
    }
}

/// A message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub id: i64,
    /// The message.
    pub message: NewMessage,
    /// What tells the request from another one; the engine's own messages have none.
    pub digest: Option<Digest>,
    /// Where it stands.
    pub status: Status,
    /// Sends finished so far.
    pub attempts: u32,
    /// It may have been sent by somebody who never came back.
    pub in_doubt: bool,
    /// When it is sent next; `None` while it is sent, when it is settled, and behind another one of its ordering key.
    pub due_at: Option<Timestamp>,
    /// Who sends it.
    pub locked_by: Option<String>,
    /// Since when.
    pub locked_at: Option<Timestamp>,
    /// The aborted message that it stands for.
    pub retry_of: Option<i64>,
    /// Why the last send failed.
    pub last_error: Option<Undelivered>,
    /// What the other side answered.
    pub result: Option<Payload>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Which messages to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Only those that stand there.
    pub status: Option<Status>,
    /// Only those of this topic.
    pub topic: Option<String>,
    /// Only those with a lower number.
    pub before: Option<i64>,
}

/// What became of the wish to send an aborted message again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// This new message stands for it.
    Accepted(i64),
    /// This one stands for it since an earlier wish.
    Replay(i64),
    /// Only an aborted message is sent again.
    NotAborted(Status),
    /// There is no such message.
    Unknown,
}

/// A list of messages, whose values come in this order: status, topic, number, limit, those that there are.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn list_of(messages: &str, listing: &Listing) -> String {
    let columns = [
        ("o.status =", listing.status.is_some()),
        ("o.topic =", listing.topic.is_some()),
        ("o.id <", listing.before.is_some()),
    ];
    let given = columns.iter().filter(|(_, given)| *given);
    let conditions: Vec<String> =
        given.enumerate().map(|(nth, (column, _))| format!("{column} ${}", nth + 1)).collect();
    let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") };
    format!("{messages} where {condition} order by o.id desc limit ${}", conditions.len() + 1)
}
