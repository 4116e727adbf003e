//! Sagas in `PostgreSQL`, which any number of nodes share.
//!
//! Everything lives in the schema `backstitch`. A batch of decisions is one statement; leases and due times are
//! judged by the database's clock, so that no node has to trust another's.

mod batch;
mod commit;
mod definitions;
mod fault;
mod inbox;
mod jobs;
mod listen;
mod nodes;
mod outbox;
mod read;
mod schema;
mod session;
mod settle;
mod value;

use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::Recorded;
use backstitch_kernel::{SagaId, Timestamp};
use deadpool_postgres::Object;
use tokio::sync::mpsc;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::jobs::{Job, Leased, Settled, Settlement};
use super::nodes::{Epoch, Known, Node, Notice, Registered};
use super::outbox::{Outgoing, Sent};
use super::{Commit, Cursor, Error, Filter, Health, Page, Store, Stored, Verdict, Writers};
use crate::inbox::{Message, Posted};
use session::Sessions;

pub use commit::commit_in;
pub use session::{WRITER_SETTINGS, WRITERS};

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../../queries/postgres/", $name, ".sql"))
    };
}
use sql;

/// A `PostgreSQL` database.
pub struct PostgresStore {
    sessions: Sessions,
}

impl PostgresStore {
    /// Connects to `postgres://USER@HOST/DATABASE` and brings its schema up to date.
    ///
    /// # Errors
    /// When the address is none, the database cannot be reached, or a newer program has changed its schema.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let sessions = Sessions::at(url)?;
        schema::migrate(&mut sessions.to_ask().await?).await?;
        Ok(Self { sessions })
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn listen(&self) -> Result<Option<mpsc::Receiver<Notice>>, Error> {
        listen::listen(self.sessions.address().clone()).await.map(Some)
    }

    fn writers(&self) -> Writers {
        Writers::Tasks(WRITERS)
    }

    async fn commit(&self, batch: &[Commit]) -> Result<Vec<Verdict>, Error> {
        settle::write(&self.sessions, batch).await
    }

    async fn load(&self, sagas: &[SagaId]) -> Result<Vec<Stored>, Error> {
        read::load(&mut self.sessions.to_ask().await?, sagas).await
    }

    async fn log(&self, saga: SagaId, after: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        read::log(&self.sessions.to_ask().await?, saga, after, limit).await
    }

    async fn list(&self, filter: &Filter, cursor: &Cursor) -> Result<Page, Error> {
        read::list(&self.sessions.to_ask().await?, filter, cursor).await
    }

    async fn health(&self, known: &[Known], stuck_since: Timestamp, limit: usize) -> Result<Health, Error> {
        read::health(&self.sessions.to_ask().await?, known, stuck_since, limit).await
    }

    async fn join(&self, node: &Node) -> Result<Epoch, Error> {
        nodes::join(&self.sessions.to_beat().await?, node).await
    }

    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error> {
        nodes::heartbeat(&self.sessions.to_beat().await?, epoch).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), Error> {
        nodes::leave(&self.sessions.to_ask().await?, epoch).await
    }

    async fn adopt(
        &self,
        node: &Node,
        epoch: Epoch,
        known: &[Known],
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<SagaId>, Error> {
        nodes::adopt(&self.sessions.to_ask().await?, node, epoch, known, at, limit).await
    }

    async fn next_wake(&self, known: &[Known]) -> Result<Option<Timestamp>, Error> {
        nodes::next_wake(&self.sessions.to_ask().await?, known).await
    }

    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        inbox::post(&self.sessions.to_ask().await?, saga, message, at).await
    }

    async fn owned(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        nodes::owned(&self.sessions.to_ask().await?, epoch).await
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<SagaId>, Error> {
        inbox::mail(&self.sessions.to_ask().await?, epoch).await
    }

    async fn register(&self, definition: &Registered) -> Result<Registered, Error> {
        definitions::register(&self.sessions.to_ask().await?, definition).await
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error> {
        definitions::load(&self.sessions.to_ask().await?, name, version).await
    }

    async fn lease_jobs(
        &self,
        queues: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Leased>, Error> {
        jobs::lease(&self.sessions.to_ask().await?, queues, lease, limit).await
    }

    async fn settle_jobs(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        jobs::settle(&self.sessions.to_ask().await?, settlements).await
    }

    async fn job(&self, id: i64) -> Result<Option<Job>, Error> {
        jobs::load(&self.sessions.to_ask().await?, id).await
    }

    async fn claim_outbox(&self, lease: Duration, limit: usize) -> Result<Vec<Outgoing>, Error> {
        outbox::claim(&self.sessions.to_ask().await?, lease, limit).await
    }

    async fn settle_outbox(&self, sent: &[Sent]) -> Result<(), Error> {
        outbox::settle(&self.sessions.to_ask().await?, sent).await
    }

    async fn next_outgoing(&self) -> Result<Option<Timestamp>, Error> {
        outbox::next_due(&self.sessions.to_ask().await?).await
    }
}

/// Asks once; the statement is prepared the first time a connection is asked it.
async fn query(client: &Object, statement: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
    let asked = async {
        let statement = client.prepare_cached(statement).await?;
        client.query(&statement, values).await
    };
    asked.await.map_err(|why| fault::error(&why))
}
