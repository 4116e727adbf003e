//! A store in one file, for one engine.
//!
//! One connection writes, behind a mutex: decisions on the thread of the engine's committer, everything else on
//! threads that may wait. A few other connections read; in WAL mode they and the writer never wait for each other.
//! An operating system lock beside the file keeps a second engine out.

mod claim_rows;
mod commit;
mod connections;
mod declared;
mod definitions;
mod events;
mod fault;
mod file;
mod grouped_insert;
mod health;
mod identity;
mod inbox;
mod jobs;
mod list;
mod message_rows;
mod messages;
mod nodes;
mod outbox;
mod parked;
mod retention;
mod sagas;
mod schema;
mod survey;
mod values;
mod write_guard;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::{Recorded, Status};
use backstitch_kernel::{SagaId, Timestamp};

pub use commit::commit_in;
pub(crate) use definitions::definition_in;
pub use events::{EventRow, append_events};
pub use file::WRITER_SETTINGS;
pub use grouped_insert::{GroupedInsert, RowValues};
pub use identity::{OpenedFile, refuse_hard_links};
pub use message_rows::{MessageRow, insert_messages};
pub use messages::publish_in;
pub use write_guard::allow_guarded_writes;

use super::declared::{Declared, InFlight};
use super::jobs::{Answer, Job, Leasing, Settled, Settlement, Withdrawal};
use super::nodes::{AdoptedBatch, Epoch, Joined, Known, Node, Registered};
use super::outbox::{
    Ages, Kept, Listing, Outgoing, Publication, Published, Rescued, Retried, Sent, Share, Waiting,
};
use super::parked::{ParkedFilter, ParkedItem, Rejection};
use super::product::{Database, Schema};
use super::retention::{Bulk, Gone, Key, KeyName, OldKeys, OldMessages, OldSagas, Shrunk};
use super::survey::{Footing, Survey};
use super::{Commit, Counts, Cursor, Error, Filter, LogHead, Page, Store, Stored, Summary, Verdict, Writers};
use crate::clock::Clock;
use crate::inbox::{Message, Posted};
use connections::Connections;
use file::Held;

/// The text of a query.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../../queries/sqlite/", $name, ".sql"))
    };
}
use sql;

/// Keeps everything in a `SQLite` file.
pub struct SqliteStore {
    connections: Arc<Connections>,
    clock: Arc<dyn Clock>,
}

impl SqliteStore {
    /// Opens the file, or makes it, and brings its schema up to date. Due times and leases go by this clock.
    ///
    /// # Errors
    /// [`Error::InUse`] when another engine has the file, [`Error::NewerSchema`] when a newer program wrote it,
    /// [`Error::ReadOnly`] when it cannot be written, [`Error::Refused`] when it is no database.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::open_with(path, clock, &[])
    }

    /// The same with the tables of these products.
    ///
    /// # Errors
    /// The same, and when a product's tables cannot be brought up to date.
    pub fn open_with(path: &Path, clock: Arc<dyn Clock>, products: &[&Schema]) -> Result<Self, Error> {
        let connections = Connections::open(Held::take(path)?, clock.now())?;
        for product in products {
            connections.write_here(|connection| schema::migrate_product(connection, product, clock.now()))?;
        }
        Ok(Self { connections: Arc::new(connections), clock })
    }
}

/// For products that keep tables of their own in the file.
impl SqliteStore {
    /// Reads, on a thread that may wait.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn read_product<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.connections.read(move |connection| Ok(work(connection)?)).await
    }

    /// Writes as one transaction, on a thread that may wait. It is on disk when this returns.
    ///
    /// # Errors
    /// When the file cannot be written, or the work fails; then nothing of it is.
    pub async fn write_product<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let write = move |connection: &rusqlite::Connection| {
            let behavior = rusqlite::TransactionBehavior::Immediate;
            let transaction = rusqlite::Transaction::new_unchecked(connection, behavior)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        self.connections.write(write).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn database(&self) -> Option<Database<'_>> {
        Some(Database::Sqlite(self))
    }

    fn writers(&self) -> Writers {
        Writers::OwnThread
    }

    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        self.connections.write_here(|connection| commit::write(connection, batch))
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        let ids = sagas.to_vec();
        self.connections.read(move |connection| sagas::load(connection, &ids)).await
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.connections.read(move |connection| sagas::log(connection, saga, after, limit)).await
    }

    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.log(saga, after, limit).await
    }

    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
        let ids = logs.to_vec();
        self.connections.read(move |connection| sagas::heads(connection, &ids)).await
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        let (filter, cursor) = (filter.clone(), cursor.clone());
        self.connections.read(move |connection| list::list(connection, &filter, &cursor)).await
    }

    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
        let sagas = sagas.to_vec();
        self.connections.read(move |connection| sagas::rows(connection, &sagas)).await
    }

    async fn counts(&self, known: &[Known]) -> Result<Counts, Error> {
        let (known, now) = (known.to_vec(), self.clock.now());
        self.connections.read(move |connection| health::counts(connection, &known, now)).await
    }

    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
        self.connections.read(move |connection| health::stuck(connection, since, limit)).await
    }

    async fn survey(&self, limit: usize) -> Result<Survey, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| survey::survey(connection, now, limit)).await
    }

    async fn footing(&self) -> Result<Option<Footing>, Error> {
        let path = self.connections.path().to_owned();
        self.connections.read(move |connection| survey::footing(connection, &path)).await.map(Some)
    }

    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| nodes::joined(connection, now, limit)).await
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        let (node, now) = (node.clone(), self.clock.now());
        self.connections.write(move |connection| nodes::join(connection, &node, now)).await
    }

    async fn probe(&self, _: bool) -> Result<(), Error> {
        // The store runs in this process: it cannot stop answering alone.
        Ok(())
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        let now = self.clock.now();
        self.connections.write(move |connection| nodes::heartbeat(connection, epoch, now)).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        let now = self.clock.now();
        self.connections.write(move |connection| nodes::leave(connection, epoch, now)).await
    }

    fn check_identity(&self) -> Result<(), Error> {
        self.connections.check()
    }

    async fn put_away(&self) {
        // What is still in the log beside the file goes into it: whoever keeps the file after this has everything.
        match self.connections.write(|connection| Ok(file::empty_log(connection)?)).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(
                    "somebody reads the file, so the log beside it could not be emptied: keep both together"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the log beside the file could not be emptied: keep both together");
            }
        }
    }

    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error> {
        let (node, known) = (node.clone(), known.to_vec());
        self.connections
            .write(move |connection| nodes::adopt(connection, &node, epoch, &known, at, limit))
            .await
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        let (known, now) = (known.to_vec(), self.clock.now());
        self.connections.read(move |connection| nodes::next_wake(connection, &known, now)).await
    }

    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        let message = message.clone();
        self.connections.write(move |connection| inbox::post(connection, saga, &message, at)).await
    }

    async fn let_go(
        &self,
        saga: SagaId,
        epoch: Epoch,
        seq: u64,
        wake_at: Option<Timestamp>,
        inbox_seen: u64,
    ) -> Result<bool, Error> {
        self.connections
            .write(move |connection| inbox::let_go(connection, saga, epoch, seq, wake_at, inbox_seen))
            .await
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        self.connections.read(move |connection| nodes::owned(connection, epoch)).await
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
        self.connections.read(move |connection| inbox::mail(connection, epoch)).await
    }

    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| definitions::register(connection, &definition, now)).await
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        let name = name.to_owned();
        self.connections.read(move |connection| definitions::load(connection, &name, version)).await
    }

    async fn stage(&self, definition: &Registered) -> Result<bool, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| declared::keep(connection, &definition, false, now)).await
    }

    async fn activate(&self, definition: &Registered) -> Result<bool, Error> {
        let (definition, now) = (definition.clone(), self.clock.now());
        self.connections.write(move |connection| declared::keep(connection, &definition, true, now)).await
    }

    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        let (name, now) = (name.to_owned(), self.clock.now());
        self.connections.write(move |connection| declared::apply(connection, &name, expected, now)).await
    }

    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        let (name, now) = (name.to_owned(), self.clock.now());
        self.connections.write(move |connection| declared::discard(connection, &name, expected, now)).await
    }

    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error> {
        let name = name.map(str::to_owned);
        self.connections.read(move |connection| declared::list(connection, name.as_deref())).await
    }

    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error> {
        Ok(self.declared(Some(name)).await?.pop())
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        let definition = definition.to_owned();
        self.connections.read(move |connection| declared::in_flight(connection, &definition)).await
    }

    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error> {
        let (queues, now) = (queues.to_vec(), self.clock.now());
        self.connections.write(move |connection| jobs::lease(connection, &queues, lease, now, limit)).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        let (settlements, now) = (settlements.to_vec(), self.clock.now());
        self.connections.write(move |connection| jobs::settle(connection, &settlements, now)).await
    }

    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error> {
        let (answer, now) = (answer.clone(), self.clock.now());
        self.connections.write(move |connection| jobs::answer(connection, &answer, at, now)).await
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        let (withdrawal, now) = (withdrawal.clone(), self.clock.now());
        self.connections.write(move |connection| jobs::withdraw(connection, &withdrawal, at, now)).await
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        self.connections.read(move |connection| jobs::job(connection, id)).await
    }

    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error> {
        let batch = batch.to_vec();
        self.connections.write(move |connection| messages::publish(connection, &batch, at)).await
    }

    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error> {
        let now = self.clock.now();
        self.connections.read(move |connection| outbox::waiting(connection, now)).await
    }

    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
        let (shares, sender, now) = (shares.to_vec(), sender.to_owned(), self.clock.now());
        self.connections.write(move |connection| outbox::claim(connection, &shares, &sender, now)).await
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        let (sent, now) = (sent.to_vec(), self.clock.now());
        self.connections.write(move |connection| outbox::settle(connection, &sent, now)).await
    }

    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error> {
        let now = self.clock.now();
        self.connections.write(move |connection| outbox::rescue(connection, limit, now)).await
    }

    async fn park(&self, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
        let (area, rejected, now) = (area.to_owned(), rejected.to_vec(), self.clock.now());
        self.connections.write(move |connection| parked::park(connection, &area, &rejected, now)).await
    }

    async fn list_parked(&self, filter: &ParkedFilter, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.connections.read(move |connection| parked::list(connection, &filter, limit, now)).await
    }

    async fn parked(&self, area: Option<&str>, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        let (area, now) = (area.map(str::to_owned), self.clock.now());
        self.connections
            .read(move |connection| parked::longest(connection, area.as_deref(), limit, now))
            .await
    }

    async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        let (filter, now) = (filter.clone(), self.clock.now());
        self.connections.write(move |connection| parked::retry(connection, &filter, now)).await
    }

    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error> {
        let now = self.clock.now();
        self.connections
            .read(move |connection| retention::old_sagas(connection, status, age, after, limit, now))
            .await
    }

    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
        let sagas = sagas.to_vec();
        self.connections.read(move |connection| retention::bulk_of_sagas(connection, &sagas)).await
    }

    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
        let sagas = sagas.to_vec();
        self.connections.read(move |connection| retention::keys_of_sagas(connection, &sagas)).await
    }

    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error> {
        let (sagas, now) = (sagas.to_vec(), self.clock.now());
        self.connections
            .write(move |connection| retention::remove_sagas(connection, &sagas, status, age, now))
            .await
    }

    async fn old_messages(
        &self,
        status: super::outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error> {
        let (besides, before) = (besides.map(str::to_owned), retention::before(age, self.clock.now()));
        self.connections
            .read(move |connection| {
                retention::old_messages(connection, status, before, besides.as_deref(), after, limit)
            })
            .await
    }

    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error> {
        let messages = messages.to_vec();
        self.connections.write(move |connection| retention::remove_messages(connection, &messages)).await
    }

    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error> {
        let (after, now) = (after.cloned(), self.clock.now());
        self.connections.read(move |connection| retention::old_keys(connection, age, after, limit, now)).await
    }

    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error> {
        let keys = keys.to_vec();
        self.connections.write(move |connection| retention::remove_keys(connection, &keys)).await
    }

    async fn shrink(&self, pages: u32) -> Result<Shrunk, Error> {
        self.connections.write(move |connection| retention::shrink(connection, pages)).await
    }

    async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        self.connections.read(move |connection| messages::message(connection, id)).await
    }

    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        let (topic, key) = (topic.to_owned(), key.to_owned());
        self.connections.read(move |connection| messages::message_of(connection, &topic, &key)).await
    }

    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        let listing = listing.clone();
        self.connections.read(move |connection| messages::list(connection, &listing, limit)).await
    }

    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error> {
        self.connections.write(move |connection| messages::retry(connection, id, at)).await
    }

    async fn outbox_ages(&self) -> Result<Ages, Error> {
        self.connections.read(outbox::ages).await
    }
}
