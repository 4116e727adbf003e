//! Prunes what is over, by age, in small batches. What is live is never touched: the database refuses it too.
//!
//! An event goes with its last delivery, or once it is old enough if that was earlier. So events are gone through only once,
//! in the order they came: one that still has deliveries when it is old enough is not looked at again.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::kernel::delivery::Status;
use tokio::sync::Mutex;

use super::base::{Base, Part};
use super::error::Error;
use super::status::delivery_word;
use crate::question::{Record, Value, chosen, statement};

/// Rows looked at in one transaction.
const PAGE: usize = 200;
/// Pages of each kind looked at in one call.
const PAGES: usize = 20;
/// Before everything.
const START: Place = (Timestamp::from_micros(-1), 0);

/// Where a page ended: the time by which its rows are ordered, and the number of the last one.
type Place = (Timestamp, i64);

/// How long what is over is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Deliveries that arrived, with their jobs and attempts.
    pub completed: Duration,
    /// Deliveries that were given up, with all of theirs.
    pub dead_lettered: Duration,
    /// Events that nothing refers to any more. Within this time a repeat is known by its id. Those that have deliveries
    /// stay as long as these.
    pub events: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        let days = |count: u64| Duration::from_secs(count * 24 * 3600);
        Self { completed: days(30), dead_lettered: days(90), events: days(30) }
    }
}

/// How much was pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Deliveries.
    pub deliveries: usize,
    /// Dead letters among them.
    pub dead_letters: usize,
    /// Jobs.
    pub jobs: usize,
    /// Attempts.
    pub attempts: usize,
    /// Events.
    pub events: usize,
    /// There was more than one call looks at: the next one need not wait.
    pub more: bool,
}

/// Prunes.
pub struct Retention {
    base: Arc<Base>,
    reached: Mutex<Reached>,
}

/// Where the next call goes on. A new process begins anew.
struct Reached {
    completed: Place,
    dead_lettered: Place,
    events: Place,
}

impl Retention {
    pub(super) fn on(base: Arc<Base>) -> Self {
        let reached = Reached { completed: START, dead_lettered: START, events: START };
        Self { base, reached: Mutex::new(reached) }
    }

    /// Goes over what is old enough, so far as one call may, from where the one before stopped. Of several nodes that do it
    /// at the same moment one goes on, and the others stop.
    ///
    /// # Errors
    /// When the database cannot be written; what was pruned by then is gone, and the rest is found next time.
    pub async fn prune(&self, ages: &Ages) -> Result<Pruned, Error> {
        let mut reached = self.reached.lock().await;
        let mut pruned = Pruned::default();
        let done = self.prune_all_deliveries(ages, &mut reached, &mut pruned).await;
        if done.is_err() {
            // Events that have just lost their last delivery may be behind where events are gone through.
            reached.events = START;
        }
        done?;
        self.prune_events(self.before(ages.events), &mut reached.events, &mut pruned).await?;
        Ok(pruned)
    }

    async fn prune_all_deliveries(
        &self,
        ages: &Ages,
        reached: &mut Reached,
        pruned: &mut Pruned,
    ) -> Result<(), Error> {
        for (status, age, from) in [
            (Status::Completed, ages.completed, &mut reached.completed),
            (Status::DeadLettered, ages.dead_lettered, &mut reached.dead_lettered),
        ] {
            self.prune_deliveries(status, [age, ages.events].map(|age| self.before(age)), from, pruned)
                .await?;
        }
        Ok(())
    }

    /// Deliveries are gone through again and again: one that was due long ago may have ended just now, and one that was made
    /// from a dead letter waits for that to go.
    async fn prune_deliveries(
        &self,
        status: Status,
        [before, events_before]: [Timestamp; 2],
        from: &mut Place,
        pruned: &mut Pruned,
    ) -> Result<(), Error> {
        let mut some = false;
        for _ in 0..PAGES {
            let values: Vec<Value> =
                vec![delivery_word(status).into(), before.into(), from.0.into(), from.1.into(), PAGE.into()];
            let page = self.base.read(Part::Retention, statement!("webhooks/finished"), values).await?;
            let old = old(&page)?;
            if !old.is_empty() {
                let statements = [
                    statement!("webhooks/prune_jobs"),
                    statement!("webhooks/prune_attempts"),
                    statement!("webhooks/prune_dead_letters"),
                    statement!("webhooks/prune_deliveries"),
                ];
                let (pick, values) = (statement!("webhooks/prunable_deliveries"), vec![chosen(&old)]);
                let gone = self.base.change_picked(Part::Retention, pick, values, statements).await?;
                let [jobs, attempts, dead_letters, deliveries] = gone;
                let events = deliveries.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
                pruned.jobs += jobs.len();
                pruned.attempts += attempts.len();
                pruned.dead_letters += dead_letters.len();
                pruned.deliveries += deliveries.len();
                pruned.events += self.remove_events(&events, events_before).await?;
                if deliveries.len() < old.len() {
                    // Another node is at it.
                    return Ok(());
                }
                some = true;
            }
            if let Some(place) = last(&page)? {
                *from = place;
            } else {
                *from = START;
                return Ok(());
            }
        }
        pruned.more |= some;
        Ok(())
    }

    async fn prune_events(
        &self,
        before: Timestamp,
        from: &mut Place,
        pruned: &mut Pruned,
    ) -> Result<(), Error> {
        for _ in 0..PAGES {
            let values: Vec<Value> = vec![before.into(), from.0.into(), from.1.into(), PAGE.into()];
            let page = self.base.read(Part::Retention, statement!("webhooks/old_events"), values).await?;
            let old = old(&page)?;
            let gone = self.remove_events(&old, before).await?;
            pruned.events += gone;
            if gone < old.len() {
                // Somebody has them in hand: another node, or whoever sends them once more. They are looked at again.
                return Ok(());
            }
            let Some(row) = page.last() else { return Ok(()) };
            *from = (row.time(1)?, row.integer(0)?);
            if page.len() < PAGE {
                return Ok(());
            }
        }
        pruned.more = true;
        Ok(())
    }

    /// Removes those of these events that are old enough and have no delivery; how many that was.
    async fn remove_events(&self, events: &[i64], before: Timestamp) -> Result<usize, Error> {
        if events.is_empty() {
            return Ok(0);
        }
        let (pick, values) = (statement!("webhooks/prunable_events"), vec![chosen(events), before.into()]);
        let [gone] = self
            .base
            .change_picked(Part::Retention, pick, values, [statement!("webhooks/prune_events")])
            .await?;
        Ok(gone.len())
    }

    fn before(&self, age: Duration) -> Timestamp {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.base.now().as_micros().saturating_sub(age).max(0))
    }
}

/// Those of a page that may go.
fn old(page: &[Record]) -> Result<Vec<i64>, Error> {
    let mut old = Vec::new();
    for row in page {
        if row.flag(2)? {
            old.push(row.integer(0)?);
        }
    }
    Ok(old)
}

/// Where the next page begins; none after the last.
fn last(page: &[Record]) -> Result<Option<Place>, Error> {
    match page.last() {
        Some(row) if page.len() == PAGE => Ok(Some((row.time(1)?, row.integer(0)?))),
        _ => Ok(None),
    }
}
