//! Which deliveries and events are removed once they are old enough. What is live is never touched: the database refuses it
//! too.
//!
//! An event goes with its last delivery, or once it is old enough if that was earlier. So events are gone through only once,
//! in the order they came: one that still has deliveries when it is old enough is not looked at again before these go.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::kernel::delivery::Status;
use backstitch::retention::{Area, CandidatePage, Line, NotPruned, Prunable};
use backstitch::store::retention::Bulk;
use backstitch::{Timestamp, store};

use super::base::{Base, Part};
use super::parked::{DELIVERY_RETENTION, EVENT_RETENTION};
use super::status::delivery_word;
use super::{Webhooks, export};
use crate::question::{Record, Value, chosen, statement};
use crate::retention::before;

/// Rows looked at together.
const PAGE: usize = 200;
/// About what goes with a delivery: attempts, their jobs and a dead letter.
const BULK_OF_DELIVERY: Bulk = Bulk { rows: 40, bytes: 0 };

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

impl Webhooks {
    /// The areas of deliveries and events at these ages, for [`Engine::prune_with`](backstitch::Engine::prune_with). They
    /// belong together: events are told which deliveries went.
    #[must_use]
    pub fn retention(&self, ages: &Ages) -> Vec<Area> {
        let base = &self.base;
        let orphans = ages.events.map(|_| Arc::new(Orphans::default()));
        let deliveries = |(status, age): (Status, Option<Duration>)| {
            let (base, orphans) = (base.clone(), orphans.clone());
            Some(Area::new(EndedDeliveries { base, status, age: age?, orphans }))
        };
        let statuses = [(Status::Completed, ages.completed), (Status::DeadLettered, ages.dead_lettered)];
        let events = ages.events.zip(orphans.clone());
        let events = events.map(|(age, orphans)| Area::new(OldEvents { base: base.clone(), age, orphans }));
        statuses.into_iter().filter_map(deliveries).chain(events).collect()
    }
}

/// Events that have lost a delivery, to be looked at although their walk has passed them.
#[derive(Default)]
struct Orphans(Mutex<BTreeSet<i64>>);

impl Orphans {
    fn open(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deliveries are gone through again and again: one that was due long ago may have ended just now, and one that was made
/// from a dead letter waits for that to go.
struct EndedDeliveries {
    base: Arc<Base>,
    status: Status,
    age: Duration,
    /// Absent where events are kept.
    orphans: Option<Arc<Orphans>>,
}

#[async_trait]
impl Prunable for EndedDeliveries {
    type Item = i64;
    type Place = i64;

    const PARKED_IN: &'static str = DELIVERY_RETENTION;
    const ITEM: &'static str = "delivery";
    const ITEMS: &'static str = "deliveries";

    fn age(&self) -> Duration {
        self.age
    }

    async fn page(&self, after: Option<i64>) -> Result<CandidatePage<i64, i64>, NotPruned> {
        let before = before(self.base.now(), self.age);
        let values: Vec<Value> = vec![
            delivery_word(self.status).into(),
            before.into(),
            after.unwrap_or_default().into(),
            PAGE.into(),
        ];
        let page = self.base.read(Part::Retention, statement!("webhooks/finished"), values).await?;
        // What was made later than `before` ended later too.
        let next = match page.last() {
            Some(row) if page.len() == PAGE && row.time(1)? < before => Some(row.integer(0)?),
            _ => None,
        };
        let items = old(&page)?.into_iter().map(|delivery| (delivery, BULK_OF_DELIVERY));
        Ok(CandidatePage::before(next, items.collect()))
    }

    async fn lines(&self, deliveries: Vec<i64>) -> Result<Vec<Line<i64>>, NotPruned> {
        export::deliveries(&self.base, &deliveries).await
    }

    /// The delivery goes first: the database refuses to delete what belongs to one that exists. Jobs are found by their
    /// attempts. Where another node is at it, nothing goes.
    async fn remove(&self, deliveries: Vec<i64>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let statements = [
            statement!("webhooks/prune_deliveries"),
            statement!("webhooks/prune_attempts"),
            statement!("webhooks/prune_dead_letters"),
        ];
        let (pick, values) = (statement!("webhooks/prunable_deliveries"), vec![chosen(&deliveries)]);
        // Every job that ended has left an attempt, whose first column is the job.
        let (gone, jobs) =
            self.base.change_picked(Part::Retention, pick, values, statements, Some(1)).await?;
        if let Some(orphans) = &self.orphans {
            let events = gone[0].iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
            orphans.open().extend(events);
        }
        let [deliveries, attempts, letters] = gone.map(|rows| rows.len() as u64);
        Ok(vec![(Self::ITEMS, deliveries), ("jobs", jobs), ("attempts", attempts), ("dead_letters", letters)])
    }
}

/// Events that have no delivery.
struct OldEvents {
    base: Arc<Base>,
    age: Duration,
    orphans: Arc<Orphans>,
}

/// How far events were gone through. A new process begins anew.
#[derive(Clone)]
struct Reached {
    /// The last event: the time by which events are ordered, and its number.
    event: (Timestamp, i64),
    /// The orphans of the page before.
    orphans: Arc<[i64]>,
}

impl OldEvents {
    fn before(&self) -> Value {
        before(self.base.now(), self.age).into()
    }

    /// Those of these events that may go, with their size.
    async fn with_bulk(&self, events: Vec<i64>) -> Result<Vec<(i64, Bulk)>, store::Error> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let bulk = statement!("webhooks/bulk_of_events");
        let rows = self.base.read(Part::Retention, bulk, vec![chosen(&events)]).await?;
        let with_bulk = |row: &Record| {
            let bytes = row.integer(1)?.unsigned_abs();
            Ok((row.integer(0)?, Bulk { rows: 1, bytes }))
        };
        rows.iter().map(with_bulk).collect()
    }

    async fn prunable(&self, events: &[i64]) -> Result<Vec<i64>, store::Error> {
        let (pick, values) = (statement!("webhooks/prunable_events"), vec![chosen(events), self.before()]);
        let rows = self.base.read(Part::Retention, pick, values).await?;
        rows.iter().map(|row| row.integer(0)).collect()
    }
}

#[async_trait]
impl Prunable for OldEvents {
    type Item = i64;
    type Place = Reached;

    const PARKED_IN: &'static str = EVENT_RETENTION;
    const ITEM: &'static str = "event";
    const ITEMS: &'static str = "events";

    fn age(&self) -> Duration {
        self.age
    }

    async fn page(&self, after: Option<Reached>) -> Result<CandidatePage<i64, Reached>, NotPruned> {
        let mut reached =
            after.unwrap_or(Reached { event: (Timestamp::from_micros(-1), 0), orphans: Arc::default() });
        let orphans: Arc<[i64]> = {
            let mut orphans = self.orphans.open();
            orphans.retain(|event| !reached.orphans.contains(event));
            orphans.iter().copied().take(PAGE).collect()
        };
        reached.orphans = orphans;
        if !reached.orphans.is_empty() {
            let items = self.with_bulk(self.prunable(&reached.orphans).await?).await?;
            return Ok(CandidatePage { items, next: Some(reached), more: true });
        }
        let (at, event) = reached.event;
        let values: Vec<Value> = vec![self.before(), at.into(), event.into(), PAGE.into()];
        let page = self.base.read(Part::Retention, statement!("webhooks/old_events"), values).await?;
        if let Some(row) = page.last() {
            reached.event = (row.time(1)?, row.integer(0)?);
        }
        let items = self.with_bulk(old(&page)?).await?;
        Ok(CandidatePage { items, next: Some(reached), more: page.len() == PAGE })
    }

    /// Only what may go is exported: an event that is being sent once more stays.
    async fn lines(&self, events: Vec<i64>) -> Result<Vec<Line<i64>>, NotPruned> {
        export::events(&self.base, &self.prunable(&events).await?).await
    }

    async fn remove(&self, events: Vec<i64>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let (pick, values) = (statement!("webhooks/prunable_events"), vec![chosen(&events), self.before()]);
        let prune = [statement!("webhooks/prune_events")];
        let ([gone], _) = self.base.change_picked(Part::Retention, pick, values, prune, None).await?;
        Ok(vec![(Self::ITEMS, gone.len() as u64)])
    }
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
