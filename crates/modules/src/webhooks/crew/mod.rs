//! Who sends webhooks, so that an endpoint's limits hold over all nodes together.
//!
//! A node that hands out attempts keeps a row in a table while it does, and reads there who else does. Each takes its part of
//! every limit by where it stands among them, so nobody has to be asked about a single request. A row that is not renewed
//! counts no more after a while, by the database's clock; by then its node, if it still runs, has stopped to hand out
//! anything by its old part.
//!
//! When nodes come and go, what one loses by it is gone with its next look, and what another one gains is taken only when all
//! have had the time to look: who has just come waits so long with its first attempts, unless it is alone. Requests that are
//! under way then are not called back, so until they end there may be more of them than the limit says. A node that is not
//! answered in time goes by what it knows for as long as the others count it.
//!
//! What outside workers have they keep when nodes come and go, and for long. So it stands in the database which node gave it to
//! them, and whoever may have more by a change waits until they have less. Of the requests that a node itself makes, which end
//! soon and with it, nothing is kept.
//!
//! A file has one process, which is always alone; what workers got from the ones before it counts all the same.

mod outside;
mod part;
mod view;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch::jobs::{JobSql, LEASE_HOLDERS};
use backstitch::store;
use backstitch::store::postgres::Acting;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;

use super::base::{Base, Part, Side};
use super::error::Error;
use super::jobs::Jobs;
use super::lanes::Limits;
use crate::question::{Record, answered, column_unreadable};
use outside::{Counts, Outside};
use part::Standing;
use view::View;

/// A database that does not answer holds up what is handed out, or a shutdown, for no longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// How often nodes tell of themselves, and for how long they are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A node that hands out anything has told of itself, and seen who else is there, within this time. What it gains by a
    /// change it takes after as much time again.
    pub every: Duration,
    /// A node unheard of for so long is gone, by the database's clock.
    pub gone_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { every: Duration::from_secs(2), gone_after: Duration::from_secs(10) }
    }
}

impl Settings {
    pub(super) fn gone_after_millis(&self) -> i64 {
        i64::try_from(self.gone_after.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The nodes that send, as one of them sees them.
pub struct Crew {
    base: Arc<Base>,
    settings: Settings,
    /// By what the others tell this node from another of the same name.
    id: String,
    view: Mutex<View>,
    outside: Mutex<Outside>,
    /// Held by whoever tells the others of this node.
    telling: tokio::sync::Mutex<()>,
}

impl Crew {
    /// One more of those who hand out these jobs.
    #[must_use]
    pub fn of(jobs: &Jobs, settings: Settings) -> Self {
        let base = jobs.base.clone();
        let id = base.ids.next(base.now()).to_string();
        Self {
            base,
            settings,
            id,
            view: Mutex::new(View::new(settings)),
            outside: Mutex::default(),
            telling: tokio::sync::Mutex::default(),
        }
    }

    /// By what this node is known.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Tells the others of this node, and sees who they are and what their workers have, if it is time to. Whoever hands out
    /// attempts, or has some out, says so as often as it looks.
    ///
    /// # Errors
    /// When the database does not answer and the others may count this node no more.
    pub(super) async fn show_up(&self) -> Result<(), Error> {
        let server = match self.base.side(Part::Worker)? {
            Side::Postgres(server) => server,
            Side::Sqlite(_) => return self.look_back().await,
        };
        let _alone = self.telling.lock().await;
        let now = Instant::now();
        let told = if self.view().is_due(now) {
            self.view().try_now(now);
            self.tell(server).await
        } else if self.outside().is_due(now) {
            let crew = self.outside().crew();
            self.see_workers(server, crew).await
        } else {
            return Ok(());
        };
        match told {
            Err(error) if self.view().is_good(Instant::now()) => {
                tracing::warn!(%error, "other nodes that send webhooks could not be told of this one, or be seen");
                Ok(())
            }
            told => Ok(told?),
        }
    }

    async fn tell(&self, server: &Acting) -> Result<(), store::Error> {
        let mut told = Instant::now();
        let counted = self.view().is_good(told);
        let mut seen = self.beat(server).await?;
        let was_known = counted && seen.contains(&self.id);
        if !was_known {
            // Of two that come at the same moment neither has seen the other yet. Now that this row is there, one of them does.
            told = Instant::now();
            seen = self.beat(server).await?;
        }
        seen.insert(self.id.clone());
        let standing = Standing::of(&self.id, &seen);
        // Only now: of a node that goes meanwhile both its part is kept free and what it left.
        if let Err(error) = self.see_workers(server, seen.clone()).await {
            if !was_known {
                return Err(error);
            }
            // What it knew a moment ago is better than to stop although the others leave it its part.
            self.outside().share_among(seen);
            tracing::warn!(%error, "what workers have from other nodes could not be seen");
        }
        self.view().stand(standing, was_known, told, Instant::now());
        Ok(())
    }

    /// Renews this node's row; who was there before.
    async fn beat(&self, server: &Acting) -> Result<BTreeSet<String>, store::Error> {
        let values: [&(dyn ToSql + Sync); 3] =
            [&self.id, &self.base.node, &self.settings.gone_after_millis()];
        let rows =
            server.query_within(ANSWERED_WITHIN, include_str!("../postgres/beat.sql"), &values).await?;
        let ids = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>();
        ids.map_err(|why| column_unreadable(&why))
    }

    /// Sees what workers have from processes that had this file before.
    async fn look_back(&self) -> Result<(), Error> {
        if self.outside().is_due(Instant::now()) {
            let JobSql { sqlite, postgres } = LEASE_HOLDERS;
            let rows = self.base.read_text(Part::Worker, sqlite, postgres, Vec::new()).await?;
            let crew = BTreeSet::from([self.id.clone()]);
            let mut counts = counts(&rows)?;
            for of_lane in counts.values_mut() {
                of_lane.retain(|(node, _)| *node != self.id);
            }
            counts.retain(|_, of_lane| !of_lane.is_empty());
            self.outside().see(counts, crew, Instant::now());
        }
        Ok(())
    }

    /// Sees what workers have from which node, of which these share the limits.
    async fn see_workers(&self, server: &Acting, crew: BTreeSet<String>) -> Result<(), store::Error> {
        let rows = server.query_within(ANSWERED_WITHIN, LEASE_HOLDERS.postgres, &[]).await?;
        self.outside().see(counts(&answered(&rows)?)?, crew, Instant::now());
        Ok(())
    }

    /// What a worker did not get here was answered, or its lease is over: there may be room again for whoever waits for it.
    pub(super) fn look_again(&self) {
        if self.outside().look_again() {
            self.base.work_soon();
        }
    }

    /// When this node takes its part, if it has just come and there are others.
    pub(super) fn begins_at(&self) -> Option<Instant> {
        self.view().begins_at()
    }

    /// What this node may take of the limits of a lane; nothing where it leaves the lane to the others.
    pub(super) fn part(&self, lane: i64, limits: &Limits) -> Option<Limits> {
        let shared = self.outside().shared(&self.id, lane, limits);
        match (self.base.side(Part::Worker), shared) {
            (Ok(Side::Sqlite(_)), None) => Standing::ALONE.part(lane, limits),
            (Ok(Side::Sqlite(_)), Some(shared)) => shared.part,
            (_, None) => self.view().part(lane, limits, Instant::now()),
            (_, Some(shared)) => self.view().part_beside(lane, &shared, Instant::now()),
        }
    }

    /// Leaves its part to the others. Whoever hands out anything afterwards comes back by it.
    pub(super) async fn leave(&self) {
        let _alone = self.telling.lock().await;
        self.view().leave();
        // Also where it is not known to have told of itself: it may have been about to.
        let Ok(Side::Postgres(server)) = self.base.side(Part::Worker) else { return };
        let left =
            server.query_within(ANSWERED_WITHIN, include_str!("../postgres/leave.sql"), &[&self.id]).await;
        if let Err(error) = left {
            tracing::warn!(%error, "other nodes hear only later that this one sends no more webhooks");
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn counts(rows: &[Record]) -> Result<Counts, store::Error> {
    let mut counts = Counts::new();
    for row in rows {
        let of_lane: &mut Vec<_> = counts.entry(row.integer(0)?).or_default();
        of_lane.push((row.text(1)?, usize::try_from(row.integer(2)?).unwrap_or(usize::MAX)));
    }
    Ok(counts)
}
