//! Reads which subscriptions are paused, for people: until when, and why.

use std::collections::HashMap;
use std::sync::Arc;

use backstitch::delivery::membership::MembershipSettings;
use backstitch::{Timestamp, store};

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
        self.read(statement!("webhooks/paused_subscriptions"), chosen(ids)).await
    }

    /// Those of these deliveries that wait for a paused subscription: due before the pause ends, and with no worker.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn of_deliveries(&self, ids: &[i64]) -> Result<HashMap<i64, Pause>, Error> {
        self.read(statement!("webhooks/paused_deliveries"), chosen(ids)).await
    }

    async fn read(&self, asked: Statement, ids: Value) -> Result<HashMap<i64, Pause>, Error> {
        // A server knows the time, and which nodes it has heard of. A file has one process.
        let at = match self.base.side(Part::Reading)? {
            Side::Sqlite(_) => self.base.now().into(),
            Side::Postgres(_) => millis(MembershipSettings::default().gone_after).into(),
        };
        let rows = self.base.read(Part::Reading, asked, vec![ids, at]).await?;
        let pause = |row: &Record| {
            let pause = Pause { until: row.time(1)?, reason: row.text(2)? };
            Ok::<_, store::Error>((row.integer(0)?, pause))
        };
        Ok(rows.iter().map(pause).collect::<Result<_, _>>()?)
    }
}
