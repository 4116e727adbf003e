//! Reads which subscriptions are paused, for people: until when, and why.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backstitch::Timestamp;
use backstitch::delivery::membership::MembershipSettings;
use backstitch::kernel::lease::Status;

use super::base::{Base, Part, Side};
use super::error::Error;
use super::membership::millis;
use crate::question::{Record, Statement, Value, chosen, statement};

/// Until when a subscription gets no requests, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The latest among the nodes that send.
    pub until: Timestamp,
    /// What opened the circuit breaker, or that the receiver asked for it.
    pub reason: String,
}

/// Reads what [`PauseWriter`](super::PauseWriter) writes on every node.
pub struct Pauses {
    base: Arc<Base>,
}

impl Pauses {
    pub(super) fn on(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Those of these subscriptions that are paused now.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn of_subscriptions(&self, ids: &[i64]) -> Result<HashMap<i64, Pause>, Error> {
        self.read(statement!("webhooks/paused_subscriptions"), chosen(ids)).await?.iter().map(pause).collect()
    }

    /// Those of these deliveries that wait for a paused subscription: due before the pause ends, and with no worker.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn of_deliveries(&self, ids: &[i64]) -> Result<HashMap<i64, Pause>, Error> {
        let paused = self.read(statement!("webhooks/paused_deliveries"), chosen(ids)).await?;
        let jobs = paused.iter().map(|row| row.optional_integer(3)).collect::<Result<Vec<_>, _>>()?;
        let leases =
            self.base.leases(Part::Reading, &jobs.iter().flatten().copied().collect::<Vec<_>>()).await?;
        let with_worker: HashSet<i64> =
            leases.iter().filter(|job| job.status == Status::Leased).map(|job| job.id).collect();
        let waiting =
            paused.iter().zip(jobs).filter(|(_, job)| job.is_none_or(|job| !with_worker.contains(&job)));
        waiting.map(|(row, _)| pause(row)).collect()
    }

    async fn read(&self, asked: Statement, ids: Value) -> Result<Vec<Record>, Error> {
        // A server knows the time, and which nodes it has heard of. A file has one process.
        let at = match self.base.side(Part::Reading)? {
            Side::Sqlite(_) => self.base.now().into(),
            Side::Postgres(_) => millis(MembershipSettings::default().gone_after).into(),
        };
        Ok(self.base.read(Part::Reading, asked, vec![ids, at]).await?)
    }
}

fn pause(row: &Record) -> Result<(i64, Pause), Error> {
    Ok((row.integer(0)?, Pause { until: row.time(1)?, reason: row.text(2)? }))
}
