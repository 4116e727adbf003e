//! Cluster membership: the nodes that make attempts, and each node's share of every partition's limits (ADR 11).
//!
//! A member renews its row in a table with each heartbeat, and reads the others'. Its share of every limit follows from its rank
//! among them, so no attempt costs a question. A row without a heartbeat does not count after a while, by the database's clock; its
//! node, if it still runs, has stopped by then to claim anything by its old share.
//!
//! When nodes join or leave, a node gives up what it loses with its next claim, and takes what it gains only when all nodes have had the time to see
//! the change. A node that has just joined waits that long with its first attempts, unless it is alone. Running attempts are
//! not called back, so until they end there may be more of them than the limit. A node without an answer to its heartbeat acts on what it
//! knows for as long as the others count it.
//!
//! Leases of outside workers outlive the nodes that gave them. The store counts them by node, and a node whose share could
//! grow by a change waits until there are fewer of them. Attempts of a node itself end soon, and with it: they are not counted.
//!
//! A store that is not shared has one process, which is always alone; leases of earlier processes count all the same.

mod held_outside;
mod share;
mod view;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::PartitionKey;
use super::limiter::Limits;
use held_outside::HeldOutside;
pub use held_outside::OutsideLeases;
use share::Rank;
pub use share::SharedPartition;
use view::View;

/// How often nodes send heartbeats, and how long one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipSettings {
    /// A node that claims anything has sent a heartbeat, and seen the other members, within this time. What it gains by a change
    /// it takes after as much time again.
    pub every: Duration,
    /// A node without a heartbeat for so long is gone, by the database's clock.
    pub gone_after: Duration,
}

impl Default for MembershipSettings {
    fn default() -> Self {
        Self { every: Duration::from_secs(2), gone_after: Duration::from_secs(10) }
    }
}

/// Where members keep their rows.
pub trait MembershipStore: Send + Sync + 'static {
    /// What attempts are claimed by.
    type Key: PartitionKey + SharedPartition;
    /// Why the store did not answer.
    type Error: Display + Send;

    /// Whether several nodes can be members.
    fn is_shared(&self) -> bool;

    /// Renews this member's row and removes rows that are older than `gone_after`. Returns the members from before that, with this
    /// one if it was among them.
    fn heartbeat(
        &self,
        id: &str,
        gone_after: Duration,
    ) -> impl Future<Output = Result<BTreeSet<String>, Self::Error>> + Send;

    /// Removes this member's row.
    fn leave(&self, id: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The leases of outside workers. Where the store is not shared, all are by other processes.
    fn outside_leases(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<OutsideLeases<Self::Key>, Self::Error>> + Send;

    /// This node's share of a partition may have grown.
    fn wake(&self);
}

/// The members, as one of them sees them.
pub struct Membership<S: MembershipStore> {
    store: S,
    settings: MembershipSettings,
    id: String,
    view: Mutex<View>,
    outside: Mutex<HeldOutside<S::Key>>,
    /// Held during a heartbeat.
    beating: tokio::sync::Mutex<()>,
}

impl<S: MembershipStore> Membership<S> {
    /// A node that is no member until its first heartbeat. Its id is no other process's, ever.
    #[must_use]
    pub fn new(store: S, id: String, settings: MembershipSettings) -> Self {
        Self {
            store,
            settings,
            id,
            view: Mutex::new(View::new(settings)),
            outside: Mutex::default(),
            beating: tokio::sync::Mutex::default(),
        }
    }

    /// The name of this node's row.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends a heartbeat, and reads the other members and the leases of outside workers, if that is due. To be called
    /// before each claim, and while attempts are running.
    ///
    /// # Errors
    /// When the store does not answer and the other nodes may not count this one any more.
    pub async fn heartbeat(&self) -> Result<(), S::Error> {
        if !self.store.is_shared() {
            return self.see_earlier_processes().await;
        }
        let _alone = self.beating.lock().await;
        let now = Instant::now();
        let beat = if self.view().is_due(now) {
            self.view().try_now(now);
            self.beat().await
        } else if self.outside().is_due(now) {
            let members = self.outside().members();
            self.see_outside_leases(members).await
        } else {
            return Ok(());
        };
        match beat {
            Err(error) if self.view().is_good(Instant::now()) => {
                tracing::warn!(%error, "heartbeat failed; this node keeps its share until it expires");
                Ok(())
            }
            beat => beat,
        }
    }

    async fn beat(&self) -> Result<(), S::Error> {
        let mut began = Instant::now();
        let counted = self.view().is_good(began);
        let mut members = self.store.heartbeat(&self.id, self.settings.gone_after).await?;
        let was_known = counted && members.contains(&self.id);
        if !was_known {
            // Of two that join at the same moment neither has seen the other yet. Now that this row is there, one of them does.
            began = Instant::now();
            members = self.store.heartbeat(&self.id, self.settings.gone_after).await?;
        }
        members.insert(self.id.clone());
        let rank = Rank::of(&self.id, &members);
        // Only now: of a node that leaves meanwhile both its share and its leases are left alone.
        if let Err(error) = self.see_outside_leases(members.clone()).await {
            if !was_known {
                return Err(error);
            }
            // The counts of a moment ago are better than to stop while the other nodes leave this one its share.
            self.outside().share_among(members);
            tracing::warn!(%error, "leases of outside workers cannot be read; the last counts are used");
        }
        self.view().confirm(rank, was_known, began, Instant::now());
        Ok(())
    }

    async fn see_earlier_processes(&self) -> Result<(), S::Error> {
        if self.outside().is_due(Instant::now()) {
            self.see_outside_leases(BTreeSet::from([self.id.clone()])).await?;
        }
        Ok(())
    }

    async fn see_outside_leases(&self, members: BTreeSet<String>) -> Result<(), S::Error> {
        let leases = self.store.outside_leases(&self.id).await?;
        self.outside().see(leases, members, Instant::now());
        Ok(())
    }

    /// A lease of an outside worker has ended that this node holds no place for: its share may grow.
    pub fn outside_lease_ended(&self) {
        if self.outside().lease_ended() {
            self.store.wake();
        }
    }

    /// When this node takes its share, if it has just joined others.
    #[must_use]
    pub fn begins_at(&self) -> Option<Instant> {
        self.view().begins_at()
    }

    /// This node's share of the limits of a partition; `None` where other nodes serve it.
    #[must_use]
    pub fn share(&self, partition: &S::Key, limits: &Limits) -> Option<Limits> {
        let shared = self.outside().shared(&self.id, partition, limits);
        match (self.store.is_shared(), shared) {
            (false, None) => Rank::ALONE.share(partition, limits),
            (false, Some(shared)) => shared.share,
            (true, None) => self.view().share(partition, limits, Instant::now()),
            (true, Some(shared)) => self.view().share_beside(partition, &shared, Instant::now()),
        }
    }

    /// Leaves its share to the other nodes. The next heartbeat joins again.
    pub async fn leave(&self) {
        let _alone = self.beating.lock().await;
        self.view().leave();
        if !self.store.is_shared() {
            return;
        }
        // Also without an answered heartbeat: one may be on its way.
        if let Err(error) = self.store.leave(&self.id).await {
            tracing::warn!(%error, "membership not ended; the other nodes see it once its heartbeat expires");
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outside(&self) -> MutexGuard<'_, HeldOutside<S::Key>> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
