//! Prunes what is over, by age, in small batches. What is live is never touched: the database refuses it too.
//!
//! An event goes with its last delivery, or once it is old enough if that was earlier. So events are gone through only once,
//! in the order they came: one that still has deliveries when it is old enough is not looked at again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::kernel::delivery::Status;
use backstitch::retention::{NotPruned, Pruner, Removal, Removed, fitting, remove_isolated};
use backstitch::store::retention::Bulk;
use backstitch::{Timestamp, store};
use tokio::sync::Mutex;

use super::base::{Base, Part};
use super::error::Error;
use super::export;
use super::parked::{DELIVERY_RETENTION, EVENT_RETENTION};
use super::status::delivery_word;
use crate::question::{Record, Value, chosen, statement};
use crate::removal::before;

/// Rows looked at together.
const PAGE: usize = 200;
/// Deliveries that go in one transaction, each with its attempts and their jobs.
const DELIVERIES: usize = 50;
/// Pages of each kind looked at in one call.
const PAGES: usize = 20;
/// Before everything.
const START: Place = (Timestamp::from_micros(-1), 0);

/// Where a page ended: the time by which its rows are ordered, and the number of the last one.
type Place = (Timestamp, i64);

/// How long what is over is kept: for ever, unless told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// Deliveries that arrived, with their jobs and attempts.
    pub completed: Option<Duration>,
    /// Deliveries that were given up, with all of theirs.
    pub dead_lettered: Option<Duration>,
    /// Events that nothing refers to any more. Within this time a repeat is known by its id. Those that have deliveries
    /// stay as long as these.
    pub events: Option<Duration>,
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
    /// The number of the last delivery that was looked at; those that follow are as old or younger.
    completed: i64,
    dead_lettered: i64,
    events: Place,
    /// An event that could have gone stays: events are gone through anew once this walk is over.
    stayed: bool,
}

impl Retention {
    pub(super) fn on(base: Arc<Base>) -> Self {
        let reached = Reached { completed: 0, dead_lettered: 0, events: START, stayed: false };
        Self { base, reached: Mutex::new(reached) }
    }

    /// Goes over what is old enough, so far as one call may, from where the one before stopped. Of several nodes that do it
    /// at the same moment one goes on, and the others stop. Nothing is exported.
    ///
    /// # Errors
    /// When the database cannot be written; what was pruned by then is gone, and the rest is found next time.
    pub async fn prune(&self, ages: &Ages) -> Result<Pruned, Error> {
        self.look(ages, PAGES, None).await.map_err(|why| match why {
            NotPruned::Store(error) => error.into(),
            NotPruned::Export(why) | NotPruned::Unreadable(why) => store::Error::Refused(why).into(),
        })
    }

    /// The same whenever the engine prunes, a page at a time.
    #[must_use]
    pub fn at(self: &Arc<Self>, ages: Ages) -> Arc<dyn Pruner> {
        Arc::new(Scheduled { retention: self.clone(), ages })
    }

    async fn look(
        &self,
        ages: &Ages,
        pages: usize,
        removal: Option<&Removal<'_>>,
    ) -> Result<Pruned, NotPruned> {
        let mut reached = self.reached.lock().await;
        let mut pruned = Pruned::default();
        let round = Round { retention: self, ages, pages, removal };
        let done = round.prune_all_deliveries(&mut reached, &mut pruned).await;
        if done.is_err() {
            // Events that have just lost their last delivery may be behind where events are gone through.
            reached.events = START;
        }
        done?;
        round.prune_events(&mut reached, &mut pruned).await?;
        Ok(pruned)
    }
}

struct Scheduled {
    retention: Arc<Retention>,
    ages: Ages,
}

#[async_trait]
impl Pruner for Scheduled {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let pruned = self.retention.look(&self.ages, 1, Some(removal)).await?;
        let count = |kind, count: usize| removal.removed(kind, count as u64);
        count("deliveries", pruned.deliveries);
        count("dead_letters", pruned.dead_letters);
        count("jobs", pruned.jobs);
        count("attempts", pruned.attempts);
        count("events", pruned.events);
        Ok(pruned.more)
    }

    fn shortest(&self) -> Option<Duration> {
        let Ages { completed, dead_lettered, events } = self.ages;
        [completed, dead_lettered, events].into_iter().flatten().min()
    }
}

/// One look.
struct Round<'a> {
    retention: &'a Retention,
    ages: &'a Ages,
    pages: usize,
    /// Nothing where nobody wants what goes.
    removal: Option<&'a Removal<'a>>,
}

impl Round<'_> {
    fn base(&self) -> &Base {
        &self.retention.base
    }

    fn exports(&self) -> Option<&Removal<'_>> {
        self.removal.filter(|removal| removal.exports())
    }

    async fn prune_all_deliveries(
        &self,
        reached: &mut Reached,
        pruned: &mut Pruned,
    ) -> Result<(), NotPruned> {
        let Reached { completed, dead_lettered, stayed, .. } = reached;
        for (status, age, from) in [
            (Status::Completed, self.ages.completed, completed),
            (Status::DeadLettered, self.ages.dead_lettered, dead_lettered),
        ] {
            if let Some(age) = age {
                let before = before(self.base().now(), age);
                *stayed |= self.prune_deliveries(status, before, from, pruned).await?;
            }
        }
        Ok(())
    }

    /// Deliveries are gone through again and again: one that was due long ago may have ended just now, and one that was made
    /// from a dead letter waits for that to go. Whether an event stays that lost its last delivery by it.
    async fn prune_deliveries(
        &self,
        status: Status,
        before: Timestamp,
        from: &mut i64,
        pruned: &mut Pruned,
    ) -> Result<bool, NotPruned> {
        let mut stayed = false;
        for _ in 0..self.pages {
            let values: Vec<Value> =
                vec![delivery_word(status).into(), before.into(), (*from).into(), PAGE.into()];
            let page = self.base().read(Part::Retention, statement!("webhooks/finished"), values).await?;
            for old in old(&page)?.chunks(DELIVERIES) {
                let export = |old: Vec<i64>| self.export_deliveries(old);
                let remove = |going: Vec<i64>| async move { self.remove_deliveries(&going).await };
                let gone =
                    self.isolated(DELIVERY_RETENTION, "delivery", old.to_vec(), export, remove).await?;
                let kept = gone.stays.len();
                let wanted = gone.tried;
                let mut removed = 0;
                for gone in gone.removed {
                    let [deliveries, jobs, attempts, dead_letters] = gone;
                    let events =
                        deliveries.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
                    pruned.jobs += jobs.len();
                    pruned.attempts += attempts.len();
                    pruned.dead_letters += dead_letters.len();
                    removed += deliveries.len();
                    let gone = self.remove_events(&events).await?;
                    pruned.events += gone.removed;
                    stayed |= gone.stayed > 0;
                }
                pruned.deliveries += removed;
                if removed + kept < wanted {
                    // Another node is at it.
                    return Ok(stayed);
                }
            }
            if let Some(last) = last(&page, before)? {
                *from = last;
            } else {
                *from = 0;
                return Ok(stayed);
            }
        }
        pruned.more = true;
        Ok(stayed)
    }

    /// Exports these, but for those that cannot be read, which stay.
    async fn export_deliveries(&self, old: Vec<i64>) -> Result<Vec<i64>, NotPruned> {
        let Some(removal) = self.exports() else { return Ok(old) };
        let documents = export::deliveries(self.base(), &old).await?;
        let (going, lines) = removal.readable("delivery", documents)?;
        removal.export("deliveries", lines).await?;
        Ok(going)
    }

    /// The delivery goes first: the database refuses to delete what belongs to one that exists. Jobs are found by their
    /// attempts.
    async fn remove_deliveries(&self, going: &[i64]) -> Result<[Vec<Record>; 4], NotPruned> {
        let statements = [
            statement!("webhooks/prune_deliveries"),
            statement!("webhooks/prune_jobs"),
            statement!("webhooks/prune_attempts"),
            statement!("webhooks/prune_dead_letters"),
        ];
        let (pick, values) = (statement!("webhooks/prunable_deliveries"), vec![chosen(going)]);
        Ok(self.base().change_picked(Part::Retention, pick, values, statements).await?)
    }

    /// Exports these once, and removes them together, or as many of them as can go.
    async fn isolated<R, X, E, W, F>(
        &self,
        area: &'static str,
        kind: &'static str,
        old: Vec<i64>,
        export: X,
        remove: W,
    ) -> Result<Removed<i64, R>, NotPruned>
    where
        X: FnOnce(Vec<i64>) -> E,
        E: Future<Output = Result<Vec<i64>, NotPruned>>,
        W: Fn(Vec<i64>) -> F,
        F: Future<Output = Result<R, NotPruned>>,
    {
        let gone = remove_isolated(self.base().store(), area, old, export, remove).await?;
        if let Some(removal) = self.removal {
            for (id, why) in &gone.stays {
                removal.passed_over(&format_args!("{kind} {id}"), why);
            }
        }
        Ok(gone)
    }

    async fn prune_events(&self, reached: &mut Reached, pruned: &mut Pruned) -> Result<(), NotPruned> {
        let Some(age) = self.ages.events else { return Ok(()) };
        let before = before(self.base().now(), age);
        for _ in 0..self.pages {
            let from = reached.events;
            let values: Vec<Value> = vec![before.into(), from.0.into(), from.1.into(), PAGE.into()];
            let page = self.base().read(Part::Retention, statement!("webhooks/old_events"), values).await?;
            let old = old(&page)?;
            let gone = self.remove_events(&old).await?;
            pruned.events += gone.removed;
            reached.stayed |= gone.stayed > 0;
            if gone.removed + gone.stayed < old.len() {
                // Somebody has them in hand: another node, or whoever sends them once more. They are looked at again.
                return Ok(());
            }
            if let Some(row) = page.last() {
                reached.events = (row.time(1)?, row.integer(0)?);
            }
            if page.len() < PAGE {
                if std::mem::take(&mut reached.stayed) {
                    reached.events = START;
                }
                return Ok(());
            }
        }
        pruned.more = true;
        Ok(())
    }

    /// Removes those of these events that are old enough and have no delivery.
    async fn remove_events(&self, events: &[i64]) -> Result<Gone, NotPruned> {
        let mut gone = Gone::default();
        let Some(age) = self.ages.events.filter(|_| !events.is_empty()) else { return Ok(gone) };
        let before: Value = before(self.base().now(), age).into();
        let bulk = statement!("webhooks/bulk_of_events");
        let rows = self.base().read(Part::Retention, bulk, vec![chosen(events)]).await?;
        let mut left = Vec::with_capacity(rows.len());
        for row in &rows {
            let bytes = row.integer(1)?.unsigned_abs();
            left.push((row.integer(0)?, Bulk { rows: 1, bytes }));
        }
        while !left.is_empty() {
            let together = fitting(left.iter().map(|(_, bulk)| *bulk));
            let events: Vec<i64> = left.drain(..together).map(|(event, _)| event).collect();
            let together = self.remove_together(&events, before.clone()).await?;
            gone.removed += together.removed;
            gone.stayed += together.stayed;
        }
        Ok(gone)
    }

    async fn remove_together(&self, events: &[i64], before: Value) -> Result<Gone, NotPruned> {
        let mut old = events.to_vec();
        if self.exports().is_some() {
            // Only what may go is exported.
            let (pick, values) =
                (statement!("webhooks/prunable_events"), vec![chosen(events), before.clone()]);
            let rows = self.base().read(Part::Retention, pick, values).await?;
            old = rows.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
        }
        let before = &before;
        let export = |old: Vec<i64>| self.export_events(old);
        let remove = |going: Vec<i64>| async move {
            let (pick, values) =
                (statement!("webhooks/prunable_events"), vec![chosen(&going), before.clone()]);
            let prune = [statement!("webhooks/prune_events")];
            let [gone] = self.base().change_picked(Part::Retention, pick, values, prune).await?;
            Ok(gone.len())
        };
        let gone = self.isolated(EVENT_RETENTION, "event", old, export, remove).await?;
        Ok(Gone { removed: gone.removed.into_iter().sum(), stayed: gone.stays.len() + gone.untried })
    }

    /// Exports these, but for those that cannot be read, which stay.
    async fn export_events(&self, old: Vec<i64>) -> Result<Vec<i64>, NotPruned> {
        let Some(removal) = self.exports() else { return Ok(old) };
        let documents = export::events(self.base(), &old).await?;
        let (going, lines) = removal.readable("event", documents)?;
        removal.export("events", lines).await?;
        Ok(going)
    }
}

/// What became of events that were to go.
#[derive(Default)]
struct Gone {
    removed: usize,
    /// Those that cannot be read, and those that the database rejects.
    stayed: usize,
}

/// Those of a page that may go.
fn old(page: &[Record]) -> Result<Vec<i64>, store::Error> {
    let mut old = Vec::new();
    for row in page {
        if row.flag(2)? {
            old.push(row.integer(0)?);
        }
    }
    Ok(old)
}

/// After which delivery the next page begins; none after the last. What was made later than `before` ended later too.
fn last(page: &[Record], before: Timestamp) -> Result<Option<i64>, store::Error> {
    match page.last() {
        Some(row) if page.len() == PAGE && row.time(1)? < before => Ok(Some(row.integer(0)?)),
        _ => Ok(None),
    }
}
