//! How it goes with what is sent to a subscription.

use std::collections::HashMap;

use backstitch::{Timestamp, store};

use super::base::Part;
use super::deliveries::Deliveries;
use super::error::Error;
use crate::question::{Record, Statement, chosen, statement};

const CONDITIONS: Statement = statement!("webhooks/conditions");

/// The newest deliveries of a subscription that are looked at.
pub const LATELY: usize = 100;
/// Dead letters that are counted; one more stands for all that there are beyond.
pub const DEAD_LETTERS_COUNTED: usize = 1_000;

/// How it goes with what is sent to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The subscription.
    pub subscription_id: i64,
    /// How many of its newest deliveries were looked at, [`LATELY`] at most.
    pub lately: u32,
    /// How many of these wait for another attempt after one that failed.
    pub retrying: u32,
    /// How many of these were given up.
    pub given_up: u32,
    /// Its dead letters, one more than [`DEAD_LETTERS_COUNTED`] at most.
    pub dead_letters: u32,
    /// Since when the oldest job of it waits to be sent.
    pub waiting_since: Option<Timestamp>,
}

impl Deliveries {
    /// How it goes with what is sent to these subscriptions.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn conditions(&self, subscriptions: &[i64]) -> Result<Vec<Condition>, Error> {
        let values = vec![chosen(subscriptions), LATELY.into(), (DEAD_LETTERS_COUNTED + 1).into()];
        let rows = self.base().read(Part::Reading, CONDITIONS, values).await?;
        let waiting = self.base().waiting(subscriptions, 1).await?;
        let waiting: HashMap<i64, Option<Timestamp>> =
            waiting.into_iter().map(|waiting| (waiting.partition, waiting.since)).collect();
        let condition = |row: &Record| {
            let subscription_id = row.integer(0)?;
            Ok::<_, store::Error>(Condition {
                subscription_id,
                lately: row.count(1)?,
                retrying: row.count(2)?,
                given_up: row.count(3)?,
                dead_letters: row.count(4)?,
                waiting_since: waiting.get(&subscription_id).copied().flatten(),
            })
        };
        Ok(rows.iter().map(condition).collect::<Result<_, _>>()?)
    }
}
