//! Sagas in `PostgreSQL`, which any number of nodes share.
//!
//! Everything lives in the schema `backstitch`. A batch of decisions is one statement; leases and due times are
//! judged by the database's clock, so that no node has to trust another's.

mod acting;
mod address;
mod adopt;
mod batch;
mod commit;
mod declared;
mod definitions;
mod dial;
mod durability;
mod fault;
mod hosts;
mod inbox;
mod jobs;
mod list;
mod listen;
mod messages;
mod nodes;
mod outbox;
mod parked;
mod pooler;
mod read;
mod retention;
mod schema;
mod session;
mod settle;
mod survey;
mod tls;
mod trial;
mod value;

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::{Recorded, Status};
use backstitch_kernel::{SagaId, Timestamp};
use tokio::sync::mpsc;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::declared::{Declared, InFlight};
use super::jobs::{Answer, Job, Leasing, Settled, Settlement, Withdrawal};
use super::nodes::{AdoptedBatch, Epoch, Joined, Known, Node, Notice, Registered};
use super::outbox::{
    Ages, Kept, Listing, Outgoing, Publication, Published, Rescued, Retried, Sent, Share, Waiting,
};
use super::parked::{ParkedFilter, ParkedItem, Rejection};
use super::product::{Database, Schema};
use super::retention::{Bulk, Gone, Key, KeyName, OldKeys, OldMessages, OldSagas};
use super::survey::{Footing, Survey};
use super::{Commit, Counts, Cursor, Error, Filter, LogHead, Page, Store, Stored, Summary, Verdict, Writers};
use crate::inbox::{Message, Posted};
use nodes::KnownProducts;
use session::{Sessions, change, read};

pub use acting::{Acting, Unit};
pub use commit::commit_in;
pub use durability::confirm;
pub use messages::publish_in;
pub use schema::{after_product_migrations, before_product_migrations};
pub use session::{WRITER_SETTINGS, WRITERS, check_sessions, pool_at};
pub use value::{time, timestamp};

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../../queries/postgres/", $name, ".sql"))
    };
}
use sql;

/// A `PostgreSQL` database.
pub struct PostgresStore {
    sessions: Sessions,
    products: KnownProducts,
}

impl PostgresStore {
    /// Connects to `postgres://USER@HOST/DATABASE` and brings its schema up to date.
    ///
    /// The address is one of libpq's, with `sslmode` (`disable`, `prefer`, `require`, `verify-ca`, `verify-full`) and
    /// `sslrootcert` (a file, or `system`) in their meaning there.
    ///
    /// # Errors
    /// When the address is none, the server cannot be reached or trusted, or a newer program has changed its schema.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, &[]).await
    }

    /// The same with the tables of these products.
    ///
    /// # Errors
    /// The same, and when a product's tables cannot be brought up to date.
    pub async fn connect_with(url: &str, products: &[&Schema]) -> Result<Self, Error> {
        let sessions = Sessions::at(url)?;
        pooler::refuse_transaction_pooling(sessions.dialler()).await?;
        // A database that is up to date is left alone: most starts need no right to change it.
        if !read!(sessions, |session| schema::is_newest(session))? {
            schema::migrate(&mut sessions.to_migrate().await?).await?;
        }
        for product in products {
            if !read!(sessions, |session| schema::is_newest_of(session, product))? {
                schema::migrate_product(&mut sessions.to_migrate().await?, product).await?;
            }
        }
        let known = products.iter().map(|product| (product.product, product.newest()));
        Ok(Self { sessions, products: known.collect() })
    }

    /// Tables that the program brings up to date itself, and whose versions its node knows
    /// ([`before_product_migrations`]).
    #[must_use]
    pub fn knowing(mut self, others: &[&Schema]) -> Self {
        self.products.extend(others.iter().map(|other| (other.product, other.newest())));
        self
    }

    /// Gives up a question after this long, together with its connection; 40 s unless told. The server gives up
    /// after 30 s by itself, so this is for servers and networks that have fallen silent.
    #[must_use]
    pub fn answering_within(mut self, limit: Duration) -> Self {
        self.sessions.answer_within(limit);
        self
    }
}

/// For products that keep tables of their own in the database.
impl PostgresStore {
    /// Asks what changes nothing; a connection that was lost is replaced once.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn read_product(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        read!(self.sessions, |session| session.query(sql, values))
    }

    /// Changes something with one statement, which is on disk when this returns.
    ///
    /// # Errors
    /// When the database cannot be written. Nobody knows what became of a change that was not answered.
    pub async fn write_product(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        change!(self.sessions.to_ask(), |session| session.query(sql, values))
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn database(&self) -> Option<Database<'_>> {
        Some(Database::Postgres(self))
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn listen(&self) -> Result<Option<mpsc::Receiver<Notice>>, Error> {
        listen::listen(self.sessions.dialler().clone()).await.map(Some)
    }

    fn writers(&self) -> Writers {
        Writers::Tasks(WRITERS)
    }

    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        settle::write(&self.sessions, batch).await
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        read!(self.sessions, |session| read::load(session, sagas))
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        read!(self.sessions, |session| read::log(session, saga, after, limit))
    }

    async fn durable_log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        read!(self.sessions, |session| read::durable_log(session, saga, after, limit))
    }

    async fn heads(&self, logs: &[SagaId]) -> Result<Vec<LogHead>, Error> {
        read!(self.sessions, |session| read::heads(session, logs))
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        read!(self.sessions, |session| list::list(session, filter, cursor))
    }

    async fn rows(&self, sagas: &[SagaId]) -> Result<Vec<Summary>, Error> {
        read!(self.sessions, |session| read::rows(session, sagas))
    }

    async fn counts(&self, known: &[Known]) -> Result<Counts, Error> {
        read!(self.sessions, |session| read::counts(session, known))
    }

    async fn stuck(&self, since: Timestamp, limit: usize) -> Result<Vec<Summary>, Error> {
        read!(self.sessions, |session| read::stuck(session, since, limit))
    }

    async fn survey(&self, limit: usize) -> Result<Survey, Error> {
        read!(self.sessions, |session| survey::survey(session, limit))
    }

    async fn footing(&self) -> Result<Option<Footing>, Error> {
        read!(self.sessions, |session| survey::footing(session)).map(Some)
    }

    async fn clock(&self) -> Result<Option<Timestamp>, Error> {
        read!(self.sessions, |session| nodes::clock(session)).map(Some)
    }

    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error> {
        read!(self.sessions, |session| nodes::joined(session, limit))
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        self.sessions.live_by(node.lease);
        change!(self.sessions.to_join(), |session| nodes::join(session, node, &self.products))
    }

    async fn probe(&self, commits: bool) -> Result<(), Error> {
        durability::probe(&self.sessions, commits).await
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        change!(self.sessions.to_beat(), |session| nodes::heartbeat(session, epoch, &self.products))
    }

    async fn try_writing(&self, epoch: Epoch) -> Result<bool, Error> {
        let lives = self.heartbeat(epoch).await?;
        if lives {
            trial::write_in_vain(&self.sessions, epoch).await?;
        }
        Ok(lives)
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        change!(self.sessions.to_ask(), |session| nodes::leave(session, epoch))
    }

    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<AdoptedBatch, Error> {
        change!(self.sessions.to_ask(), |session| adopt::adopt(session, node, epoch, known, at, limit))
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        read!(self.sessions, |session| nodes::next_wake(session, known))
    }

    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        change!(self.sessions.to_ask(), |session| inbox::post(session, saga, message, at))
    }

    async fn let_go(
        &self,
        saga: SagaId,
        epoch: Epoch,
        seq: u64,
        wake_at: Option<Timestamp>,
        inbox_seen: u64,
    ) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| inbox::let_go(
            session, saga, epoch, seq, wake_at, inbox_seen
        ))
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        read!(self.sessions, |session| nodes::owned(session, epoch))
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
        read!(self.sessions, |session| inbox::mail(session, epoch))
    }

    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        change!(self.sessions.to_ask(), |session| definitions::register(session, definition))
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        read!(self.sessions, |session| definitions::load(session, name, version))
    }

    async fn stage(&self, definition: &Registered) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| declared::keep(session, definition, false))
    }

    async fn activate(&self, definition: &Registered) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| declared::keep(session, definition, true))
    }

    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        change!(self.sessions.to_ask(), |session| declared::apply(session, name, expected))
    }

    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error> {
        change!(self.sessions.to_ask(), |session| declared::discard(session, name, expected))
    }

    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error> {
        read!(self.sessions, |session| declared::list(session, name))
    }

    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error> {
        read!(self.sessions, |session| declared::durably_declared(session, name))
    }

    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error> {
        read!(self.sessions, |session| declared::in_flight(session, definition))
    }

    async fn lease_jobs(&self, queues: &[String], lease: Duration, limit: usize) -> Result<Leasing, Error> {
        change!(self.sessions.to_ask(), |session| jobs::lease(session, queues, lease, limit))
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        change!(self.sessions.to_ask(), |session| jobs::settle(session, settlements))
    }

    async fn answer_job(&self, answer: &Answer, at: Timestamp) -> Result<Settled, Error> {
        change!(self.sessions.to_ask(), |session| jobs::answer(session, answer, at))
    }

    async fn withdraw_job(&self, withdrawal: &Withdrawal, at: Timestamp) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| jobs::withdraw(session, withdrawal, at))
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        read!(self.sessions, |session| jobs::load(session, id))
    }

    async fn publish(&self, batch: &[Publication], at: Timestamp) -> Result<Vec<Published>, Error> {
        change!(self.sessions.to_ask(), |session| messages::publish(session, batch, at))
    }

    async fn waiting_topics(&self) -> Result<Vec<Waiting>, Error> {
        read!(self.sessions, |session| outbox::waiting(session))
    }

    async fn claim_outbox(&self, shares: &[Share], sender: &str) -> Result<Vec<Outgoing>, Error> {
        change!(self.sessions.to_ask(), |session| outbox::claim(session, shares, sender))
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        change!(self.sessions.to_ask(), |session| outbox::settle(session, sent))
    }

    async fn rescue_outbox(&self, limit: usize) -> Result<Rescued, Error> {
        change!(self.sessions.to_ask(), |session| outbox::rescue(session, limit))
    }

    async fn park(&self, area: &str, rejected: &[Rejection]) -> Result<(), Error> {
        change!(self.sessions.to_ask(), |session| parked::park(session, area, rejected))
    }

    async fn list_parked(&self, filter: &ParkedFilter, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        read!(self.sessions, |session| parked::list(session, filter, limit))
    }

    async fn parked(&self, area: Option<&str>, limit: usize) -> Result<Vec<ParkedItem>, Error> {
        read!(self.sessions, |session| parked::longest(session, area, limit))
    }

    async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error> {
        change!(self.sessions.to_ask(), |session| parked::retry(session, filter))
    }

    async fn take_turn(&self, holder: &str, lease: Duration) -> Result<bool, Error> {
        change!(self.sessions.to_ask(), |session| retention::take_turn(session, holder, lease))
    }

    async fn old_sagas(
        &self,
        status: Status,
        age: Duration,
        after: Option<SagaId>,
        limit: usize,
    ) -> Result<OldSagas, Error> {
        read!(self.sessions, |session| retention::old_sagas(session, status, age, after, limit))
    }

    async fn bulk_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<(SagaId, Bulk)>, Error> {
        read!(self.sessions, |session| retention::bulk_of_sagas(session, sagas))
    }

    async fn keys_of_sagas(&self, sagas: &[SagaId]) -> Result<Vec<Key>, Error> {
        read!(self.sessions, |session| retention::keys_of_sagas(session, sagas))
    }

    async fn remove_sagas(&self, sagas: &[SagaId], status: Status, age: Duration) -> Result<Gone, Error> {
        change!(self.sessions.to_ask(), |session| retention::remove_sagas(session, sagas, status, age))
    }

    async fn old_messages(
        &self,
        status: super::outbox::Status,
        age: Duration,
        besides: Option<&str>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<OldMessages, Error> {
        read!(self.sessions, |session| retention::old_messages(session, status, age, besides, after, limit))
    }

    async fn remove_messages(&self, messages: &[i64]) -> Result<u64, Error> {
        change!(self.sessions.to_ask(), |session| retention::remove_messages(session, messages))
    }

    async fn old_keys(&self, age: Duration, after: Option<&KeyName>, limit: usize) -> Result<OldKeys, Error> {
        read!(self.sessions, |session| retention::old_keys(session, age, after, limit))
    }

    async fn remove_keys(&self, keys: &[KeyName]) -> Result<u64, Error> {
        change!(self.sessions.to_ask(), |session| retention::remove_keys(session, keys))
    }

    async fn message(&self, id: i64) -> Result<Option<Kept>, Error> {
        read!(self.sessions, |session| messages::message_numbered(session, id))
    }

    async fn message_of(&self, topic: &str, key: &str) -> Result<Option<Kept>, Error> {
        read!(self.sessions, |session| messages::message_of(session, topic, key))
    }

    async fn messages(&self, listing: &Listing, limit: usize) -> Result<Vec<Kept>, Error> {
        read!(self.sessions, |session| messages::list(session, listing, limit))
    }

    async fn retry_message(&self, id: i64, at: Timestamp) -> Result<Retried, Error> {
        change!(self.sessions.to_ask(), |session| messages::retry(session, id, at))
    }

    async fn outbox_ages(&self) -> Result<Ages, Error> {
        read!(self.sessions, |session| outbox::ages(session))
    }
}
