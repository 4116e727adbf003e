//! What the engine asks of a database: one atomic commit, and the queries around it.
//!
//! Three stores keep this contract and one conformance suite checks them alike: memory, `SQLite`, `PostgreSQL`.

mod commit;
pub mod declared;
mod error;
pub mod isolation;
pub mod jobs;
pub mod memory;
pub mod nodes;
pub mod outbox;
pub mod parked;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod product;
mod query;
pub mod retention;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod stretch;
pub mod survey;
#[doc(hidden)]
pub mod watched;

use async_trait::async_trait;

pub use commit::{Claim, Commit, NewRow, RowUpdate, RowWrite, Verdict};
pub use error::{Corrupt, Error};
pub use query::{
    COUNTED, Counts, Cursor, Filter, Health, LogHead, Page, Stored, StuckStep, Summary, Unregistered,
};

use crate::inbox::{Message, Posted};
use backstitch_kernel::saga::{Recorded, Status};
use backstitch_kernel::{SagaId, Timestamp};
use declared::{Declared, InFlight};
use jobs::{Answer, Job, Leasing, Settled, Settlement, Withdrawal};
use nodes::{AdoptedBatch, Epoch, Joined, Known, Node, Notice, Registered};
use outbox::{Ages, Kept, Listing, Outgoing, Publication, Published, Rescued, Retried, Sent, Share, Waiting};
use parked::{ParkedFilter, ParkedItem, Rejection};
use retention::{Bulk, Gone, Key, KeyName, OldKeys, OldMessages, OldSagas, Shrunk};
use std::time::Duration;
use survey::{Footing, Survey};
use tokio::sync::mpsc;

/// Who writes to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// One thread: commits do their work on the thread that calls.
    OwnThread,
    /// So many tasks, at least one: commits wait for somebody else, who can write several at a time.
    Tasks(usize),
}

/// A place where sagas are durable.
///
/// Everything a decision leads to goes through [`Store::commit`]; the other methods find work, or move what is
/// not part of a saga's own log.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Whether other processes may work on it too, so that only a heartbeat tells who is alive.
    fn is_shared(&self) -> bool {
        false
    }

    /// The database behind it, for products that keep tables of their own there; `None` where there is none.
    fn database(&self) -> Option<product::Database<'_>> {
        None
    }

    /// Hears of messages for sagas, and of sagas started in somebody's transaction, for as long as the receiver lives;
    /// `None` where nobody else can do such things, or nobody tells.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn listen(&self) -> Result<Option<mpsc::Receiver<Notice>>, Error> {
        Ok(None)
    }

    /// From where [`Store::commit`] wants to be called.
    fn writers(&self) -> Writers;

    /// Writes all of these, each on its own or not at all, as one transaction: one lost fence never fails its
    /// neighbours. Answers in the order asked. When it returns `Ok`, what it calls applied is on disk.
    ///
    /// # Errors
    /// When nothing can be said about any of them; the log must be read again before anything is assumed.
    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error>;

    /// The whole of each saga that exists among these, in no special order.
    ///
    /// # Errors
    /// When the store cannot be read, or holds what nobody can have written.
    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error>;

    /// Up to `limit` events of a saga after number `after`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error>;

    /// The same, and these events are durable, also on a synchronous standby. For a commit whose outcome is unknown.
    ///
    /// # Errors
    /// When the store cannot be read or cannot be written.
    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error>;

    /// How far these logs go, for those that exist: of sagas, or of what a product keeps.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error>;

    /// Sagas that match, newest first, a page at a time, found by index.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error>;

    /// The rows of those of these sagas that exist, in no special order.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error>;

    /// What is active, and what waits for a definition that is not among `known`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn counts(&self, known: &[Known]) -> Result<Counts, Error>;

    /// Up to `limit` sagas that no living process has, in the same status and without anything due since before this time,
    /// longest first. What only waits for its time is not even looked at, and of the others a thousand of each kind.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error>;

    /// What nobody may be looking after; of each kind at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn survey(&self, limit: usize) -> Result<Survey, Error>;

    /// What this store stands on; nothing where that is this process alone.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn footing(&self) -> Result<Option<Footing>, Error> {
        Ok(None)
    }

    /// The time by the store's own clock, which decides deadlines and timers; `None` where that is the engine's.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn clock(&self) -> Result<Option<Timestamp>, Error> {
        Ok(None)
    }

    /// Up to `limit` processes that have joined and not left, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error>;

    /// Enters this process as a new incarnation.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn join(&self, node: &Node) -> Result<Epoch, Error>;

    /// Whether the store answers within a few seconds; with `commits`, whether a small commit becomes durable by then.
    ///
    /// # Errors
    /// When it does not.
    async fn probe(&self, commits: bool) -> Result<(), Error>;

    /// Says that this incarnation lives. `false`: it was declared dead, and must not act any more.
    ///
    /// # Errors
    /// When the store cannot be written; the caller must assume the worst once its lease is over.
    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error>;

    /// Finds out whether decisions can be written, by a write that leaves nothing behind; false when nobody knows this
    /// node. Where everything is written in one place, the heartbeat shows it.
    ///
    /// # Errors
    /// Why none can be.
    async fn try_writing(&self, epoch: Epoch) -> Result<bool, Error> {
        self.heartbeat(epoch).await
    }

    /// Checks that what the store writes to is still what it opened: a file can be deleted or replaced under it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it is not. Every write is refused then.
    fn check_identity(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Gives back everything this incarnation owns, due at once, and strikes it off.
    ///
    /// # Errors
    /// When the store cannot be written; the lease's end then does the same.
    async fn leave(&self, epoch: Epoch) -> Result<(), Error>;

    /// Puts everything where whoever keeps the store from now on looks for it, as far as nobody is in the way. Nothing is
    /// lost where that cannot be done.
    async fn put_away(&self) {}

    /// Takes up to `limit` sagas whose owner is dead, or that are due and have no owner, of these definitions only.
    /// Where the owner is dead, `saga.adopted` is appended to the log in the transaction that changes the owner. A saga
    /// without an owner was released by it, and its log stays as it is. A saga whose adoption is rejected is parked
    /// ([`parked::ADOPTION`]).
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error>;

    /// Lets go of a saga of this incarnation about which nothing was decided since event `seq`: its messages up to number
    /// `inbox_seen` are answered, and it is due at `wake_at`, or not before its next message. `false`: it is somebody else's
    /// by now, or has a newer event or message, and stays as it is.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn let_go(
        &self,
        saga: SagaId,
        epoch: Epoch,
        seq: u64,
        wake_at: Option<Timestamp>,
        inbox_seen: u64,
    ) -> Result<bool, Error>;

    /// The active sagas of this incarnation.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error>;

    /// When the next unowned saga of these definitions is due; `None` when none is waiting.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error>;

    /// Leaves a message for a saga, whoever owns it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error>;

    /// The sagas of this incarnation for which messages wait, each with the number of the newest.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error>;

    /// Keeps a definition's version, and says what is kept if the version was there before.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn register(&self, definition: &Registered) -> Result<Registered, Error>;

    /// The version kept under this name, or the highest one.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error>;

    /// Keeps a declared definition and stages it, instead of what was staged before. `false`: its version is not the next
    /// one, or the name belongs to a program's code.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn stage(&self, definition: &Registered) -> Result<bool, Error>;

    /// Keeps a declared definition and lets new sagas take it from now on, both or neither; what was staged before is not
    /// any more. `false` as for [`Self::stage`].
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn activate(&self, definition: &Registered) -> Result<bool, Error>;

    /// Lets new sagas take the staged version from now on; `None` when nothing is staged, or not the version that is
    /// expected.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error>;

    /// Forgets which version is staged; `None` when nothing is, or not the version that is expected.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error>;

    /// What is declared under this name, or under all, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error>;

    /// What is declared under this name, durable also on a synchronous standby. For a request that may be a repetition.
    ///
    /// # Errors
    /// When the store cannot be read or cannot be written.
    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error>;

    /// The sagas of this definition that have not ended, by version, counted [so far](COUNTED).
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error>;

    /// Leases up to `limit` due jobs of these queues, oldest first; expired leases are returned to the queue
    /// first. The store's clock decides. The last lease that a job may lose ends it, and the saga that waits for it is told
    /// ([`Job::lost`]), or neither; a job [of a product](Job::is_of_a_product) is left to the product then.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error>;

    /// Reports on leased jobs, each only if its token is the newest.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error>;

    /// Takes an outside worker's answer: the job is over and its saga is told, or neither.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error>;

    /// Takes back a job that no worker has, be it that it waits or that its lease has run out: the job is over and its
    /// saga is told, or neither. `false`: a worker has it, or it is over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error>;

    /// A job as it stands.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn job(&self, id: i64) -> Result<Option<Job>, Error>;

    /// Writes messages and their keys, each on its own or not at all, as one transaction. Answers in the order asked.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error>;

    /// The topics that have messages to send, now or later.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error>;

    /// Takes messages that are due, so many of each topic, oldest first; `sender` is who sends them. One behind another of
    /// its ordering key is not taken.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error>;

    /// Records what became of claimed messages, each only if its lock is still the newest, and settles the ledger with
    /// those that are over.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error>;

    /// Looks after up to `limit` messages whose lease is over, and as many that are too old to be sent.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error>;

    /// Parks items of an area that the database rejected: their batches pass them over for a while, longer each time. A store
    /// that rejects nothing parks nothing.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn park(&self, _area: &str, _rejected: &[Rejection]) -> Result<(), Error> {
        Ok(())
    }

    /// Up to `limit` of these items that are parked, by area and item.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list_parked(&self, _filter: &ParkedFilter, _limit: usize) -> Result<Vec<ParkedItem>, Error> {
        Ok(Vec::new())
    }

    /// Up to `limit` items of this area, or of all, that are parked, longest parked first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn parked(&self, _area: Option<&str>, _limit: usize) -> Result<Vec<ParkedItem>, Error> {
        Ok(Vec::new())
    }

    /// Has those of these items that are parked tried again by their next batch. Answers with those that it was done for: an
    /// item that is tried again already is parked no longer.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn retry_parked(&self, _filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        Ok(Vec::new())
    }

    /// Takes a turn at removing what is old, or keeps it, for so long. `false`: another process has it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn take_turn(&self, _holder: &str, _lease: Duration) -> Result<bool, Error> {
        Ok(true)
    }

    /// Up to `limit` sagas behind this one that are in this final status, and which of them have been for longer than `age`
    /// and have nothing left to do. Found by index, from the oldest on; the store's clock decides.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error>;

    /// How long the logs of these sagas are, or of whatever else keeps its log among theirs.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error>;

    /// The keys that these sagas were started under.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error>;

    /// Removes those of these sagas that are still in this final status for longer than `age` and have nothing left to do,
    /// each with its log, its attributes, its jobs and its key, as one transaction.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error>;

    /// Up to `limit` messages behind this one that are settled so, and which of them have been for longer than `age`, of all
    /// topics `besides` one. What an unfinished message stands for is not among them, nor what stands for one that is kept.
    /// Found by index, from the oldest on; the store's clock decides.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn old_messages(
        &self,
        status: outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error>;

    /// Removes those of these messages that are settled and that no unfinished message stands for; how many that were.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error>;

    /// Up to `limit` keys of messages behind this one that were first used longer than `age` ago, and which of them have no
    /// message any more. Found by index, from the oldest on.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error>;

    /// Removes those of these keys that nobody has used anew; how many that were.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error>;

    /// Gives up to so many free pages back to the file system, where that is this process's business.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn shrink(&self, _pages: u32) -> Result<Shrunk, Error> {
        Ok(Shrunk::default())
    }

    /// A message as it stands.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message(&self, id: i64) -> Result<Option<Kept>, Error>;

    /// The newest message that its topic keeps under this key.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error>;

    /// Messages that match, newest first, found by index.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error>;

    /// Writes an aborted message anew, once, and lets the ledger wait for it.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error>;

    /// How long messages have waited that are not out yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn outbox_ages(&self) -> Result<Ages, Error>;
}
