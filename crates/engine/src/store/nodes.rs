//! Nodes that share the work, and their leases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::saga::Event;
use backstitch_kernel::{SagaId, Timestamp};

use super::Error;
use super::sealed::Sealed;
use crate::outbox::Announced;

/// The nodes of a cluster and their heartbeats.
#[async_trait]
pub trait NodeStore: Sealed {
    /// Up to `limit` nodes that have joined and not left, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn nodes(&self, limit: usize) -> Result<Vec<Joined>, Error>;

    /// Registers this process as a new incarnation.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn join(&self, node: &Node) -> Result<Epoch, Error>;

    /// Renews the lease of this incarnation. `false`: it was declared dead and must not act any more.
    ///
    /// # Errors
    /// When the store cannot be written. The caller must stop acting once its lease has expired.
    async fn heartbeat(&self, epoch: Epoch) -> Result<bool, Error>;

    /// Checks that decisions can be written, by a write that is rolled back; `false` if this node is not registered. Where
    /// there is only one connection that writes, the heartbeat shows it.
    ///
    /// # Errors
    /// Why decisions cannot be written.
    async fn try_writing(&self, epoch: Epoch) -> Result<bool, Error> {
        self.heartbeat(epoch).await
    }

    /// Says until when this incarnation has written all answers of workers that arrived at it, and returns the same of the
    /// other live nodes, the earliest of them. `None` where there are none.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn share_written_answers(
        &self,
        _epoch: Epoch,
        _until: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        Ok(None)
    }

    /// Releases all sagas of this incarnation, due at once, and removes its registration.
    ///
    /// # Errors
    /// When the store cannot be written. The same happens when the lease expires.
    async fn leave(&self, epoch: Epoch) -> Result<(), Error>;
}

/// One life of a process: every start gets a higher number than all before it.
pub type Epoch = i64;

/// A process as it presents itself.
#[derive(Clone, Debug)]
pub struct Node {
    /// What people call it.
    pub name: String,
    /// Unrenewed for this long it counts as dead, by the database's clock.
    pub lease: Duration,
    /// What it tells of the sagas that it takes over.
    pub announced: Announced,
}

impl Node {
    /// The event that a store appends when this incarnation of the node takes a saga from a dead owner.
    pub(crate) fn adoption(&self, epoch: Epoch) -> Event {
        Event::adopted(self.name.clone(), epoch)
    }
}

/// A process that has joined and not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Which life of it.
    pub epoch: Epoch,
    /// What people call it.
    pub name: String,
    /// When it joined.
    pub started_at: Timestamp,
    /// When it last said that it lives.
    pub heartbeat_at: Timestamp,
    /// Whether its lease lasts, by the store's own clock; one that does not is dead, whether or not anybody has noticed.
    pub lives: bool,
}

/// A saga that a node has taken over or taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedSaga {
    /// The saga.
    pub id: SagaId,
    /// The number of the `saga.adopted` that was appended; none where its owner had released it.
    pub seq: Option<u64>,
}

/// Sagas that a node has adopted in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdoptedBatch {
    /// The sagas.
    pub sagas: Vec<AdoptedSaga>,
    /// Whether others may wait: the batch was full, or a saga that was rejected is parked now.
    pub more: bool,
}

/// A definition that a node can run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: u32,
}

/// Something another process has done that is worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A message came in for this saga.
    InboxChanged(SagaId),
    /// This saga was started in somebody's transaction and waits for an owner.
    Started(SagaId),
    /// A declared definition was applied.
    Applied,
    /// A message was published in somebody's transaction.
    Published,
    /// Notices may have been missed: look at everything. The first one of all, and one after every new connection.
    Missed,
}
