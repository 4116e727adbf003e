//! How fast deliveries are given up, and where they pile up: for whoever looks for what is wrong.

use backstitch::Timestamp;
use backstitch::store;

use super::base::Part;
use super::dead_letters::DeadLetters;
use super::error::Error;
use crate::question::{Record, statement};

/// Dead letters that are counted at most.
pub const COUNTED: u64 = 10_000;

/// How many deliveries to a subscription were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The subscription.
    pub subscription_id: i64,
    /// Since the later of two times.
    pub lately: u64,
    /// Since the earlier one, until the later one.
    pub before: u64,
}

impl DeadLetters {
    /// How many deliveries were given up after `middle`, and after `begin` until `middle`, for up to `limit` subscriptions:
    /// those with most after `middle` first. Of more than [`COUNTED`] the newest so many count.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn growth(
        &self,
        begin: Timestamp,
        middle: Timestamp,
        limit: usize,
    ) -> Result<Vec<Growth>, Error> {
        let values = vec![begin.into(), middle.into(), limit.into()];
        let rows =
            self.base().read(Part::Reading, statement!("webhooks/recent_dead_letters"), values).await?;
        let growth = |row: &Record| {
            Ok::<_, store::Error>(Growth {
                subscription_id: row.integer(0)?,
                lately: row.integer(1)?.unsigned_abs(),
                before: row.integer(2)?.unsigned_abs(),
            })
        };
        Ok(rows.iter().map(growth).collect::<Result<_, _>>()?)
    }

    /// How many nobody has requeued; no more than [`COUNTED`] are counted.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn count_unrequeued(&self) -> Result<u64, Error> {
        let rows = self.base().read(Part::Reading, statement!("webhooks/unrequeued"), Vec::new()).await?;
        Ok(rows.first().map(|row| row.integer(0)).transpose()?.unwrap_or_default().unsigned_abs())
    }
}
