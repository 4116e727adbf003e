//! Prunes what is over, by age, in small batches. What is live is never touched: the database refuses it too.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::kernel::delivery::Status;

use super::base::{Base, Part};
use super::dead_letters::chosen;
use super::error::Error;
use super::statement::{Record, Value, statement};
use super::status::delivery_word;

/// Rows looked at in one transaction.
const PAGE: usize = 200;
/// Earlier than everything.
const START: Timestamp = Timestamp::from_micros(-1);

/// How long what is over is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Deliveries that arrived, with their jobs and attempts.
    pub completed: Duration,
    /// Deliveries that were given up, with all of theirs.
    pub dead_lettered: Duration,
    /// Events that nothing refers to any more. Within this time a repeat is known by its id.
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
}

/// Prunes.
pub struct Retention {
    base: Arc<Base>,
}

impl Retention {
    pub(super) fn on(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Goes once over everything that is old enough.
    ///
    /// # Errors
    /// When the database cannot be written; what was pruned by then is gone, and the rest is found next time.
    pub async fn prune(&self, ages: &Ages) -> Result<Pruned, Error> {
        let mut pruned = Pruned::default();
        self.prune_deliveries(Status::Completed, ages.completed, &mut pruned).await?;
        self.prune_deliveries(Status::DeadLettered, ages.dead_lettered, &mut pruned).await?;
        self.prune_events(ages.events, &mut pruned).await?;
        Ok(pruned)
    }

    async fn prune_deliveries(
        &self,
        status: Status,
        age: Duration,
        pruned: &mut Pruned,
    ) -> Result<(), Error> {
        let before = self.before(age);
        let mut seen = Some((START, 0));
        while let Some((at, id)) = seen {
            let values: Vec<Value> =
                vec![delivery_word(status).into(), before.into(), at.into(), id.into(), PAGE.into()];
            let page = self.base.read(Part::Retention, statement!("finished"), values).await?;
            let old = old(&page)?;
            if !old.is_empty() {
                let statements = [
                    statement!("prune_jobs"),
                    statement!("prune_attempts"),
                    statement!("prune_dead_letters"),
                    statement!("prune_deliveries"),
                ];
                let gone = self.base.change_all(Part::Retention, statements, vec![chosen(&old)]).await?;
                let [jobs, attempts, dead_letters, deliveries] = gone.map(|rows| rows.len());
                pruned.jobs += jobs;
                pruned.attempts += attempts;
                pruned.dead_letters += dead_letters;
                pruned.deliveries += deliveries;
            }
            seen = last(&page)?;
        }
        Ok(())
    }

    async fn prune_events(&self, age: Duration, pruned: &mut Pruned) -> Result<(), Error> {
        let before = self.before(age);
        let mut seen = Some((START, 0));
        while let Some((at, id)) = seen {
            let values: Vec<Value> = vec![before.into(), at.into(), id.into(), PAGE.into()];
            let page = self.base.read(Part::Retention, statement!("old_events"), values).await?;
            let old = old(&page)?;
            if !old.is_empty() {
                let gone =
                    self.base.change(Part::Retention, statement!("prune_events"), vec![chosen(&old)]).await?;
                pruned.events += gone.len();
            }
            seen = last(&page)?;
        }
        Ok(())
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
fn last(page: &[Record]) -> Result<Option<(Timestamp, i64)>, Error> {
    match page.last() {
        Some(row) if page.len() == PAGE => Ok(Some((row.time(1)?, row.integer(0)?))),
        _ => Ok(None),
    }
}
