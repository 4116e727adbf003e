//! Deliveries that were given up, and how they are sent after all: as new ones. The old one never changes.

use std::sync::Arc;

use backstitch::{Timestamp, store};

use super::base::{Base, Part};
use super::error::Error;
use super::page::{Conditions, Page, beyond};
use super::statement::{Record, Value, statement};

const COLUMNS: &str = "select saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at, \
    (select id from webhook_delivery_sagas where requeue_of = dead_letters.saga_id) from dead_letters";
/// Dead letters requeued in one transaction at most.
const BATCH: usize = 256;

/// Lists and requeues dead letters.
pub struct DeadLetters {
    base: Arc<Base>,
}

/// A delivery that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The delivery, by whose number it is known.
    pub saga_id: i64,
    /// The event.
    pub event_id: i64,
    /// The subscription.
    pub subscription_id: i64,
    /// Attempts that were made.
    pub attempt_count: u32,
    /// Why the last one failed.
    pub final_error_code: Option<String>,
    /// The message id that the receiver saw.
    pub webhook_id: String,
    /// When it was given up.
    pub created_at: Timestamp,
    /// The delivery that was made from it.
    pub requeued_as: Option<i64>,
}

/// Which dead letters are meant.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// Those of a subscription.
    pub subscription_id: Option<i64>,
    /// Those of an event.
    pub event_id: Option<i64>,
    /// Those whose last attempt failed so.
    pub final_error_code: Option<String>,
    /// Those given up then or later.
    pub since: Option<Timestamp>,
    /// Those given up before.
    pub until: Option<Timestamp>,
    /// Only those that have not been requeued.
    pub not_requeued: bool,
}

/// What came of requeueing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requeued {
    /// The new delivery.
    pub delivery: i64,
    /// It had been made before, and nothing changed.
    pub repeated: bool,
}

/// What came of requeueing many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequeuedMany {
    /// How many new deliveries there are.
    pub requeued: usize,
    /// What to go on with; none when all were seen.
    pub next: Option<i64>,
}

impl DeadLetters {
    pub(super) fn on(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(super) fn base(&self) -> &Base {
        &self.base
    }

    /// Those that match, newest first, a page at a time.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(
        &self,
        which: &Which,
        limit: usize,
        before: Option<i64>,
    ) -> Result<Page<DeadLetter>, Error> {
        let mut asked = which.conditions();
        asked.and("saga_id < ?", before.unwrap_or(i64::MAX));
        let items = self.read(asked, "order by saga_id desc", beyond(limit)).await?;
        Ok(Page::of(items, limit, |letter| letter.saga_id))
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number, or the database cannot be read.
    pub async fn get(&self, id: i64) -> Result<DeadLetter, Error> {
        let mut asked = Conditions::default();
        asked.and("saga_id = ?", id);
        self.read(asked, "", 1).await?.pop().ok_or(Error::UnknownDeadLetter(id))
    }

    /// Makes a brand-new delivery from a dead letter, which keeps the message id. A dead letter is requeued once: asking
    /// again gives the same delivery. If that one is given up too, it is a dead letter of its own.
    ///
    /// # Errors
    /// When there is no such dead letter, its subscription was deleted, or the database cannot be written.
    pub async fn requeue(&self, id: i64) -> Result<Requeued, Error> {
        let made = self.requeue_all(&[id]).await?;
        if let Some(delivery) = made.first() {
            return Ok(Requeued { delivery: *delivery, repeated: false });
        }
        let rows = self.base.read(Part::DeadLetter, statement!("find_requeue"), vec![id.into()]).await?;
        match rows.first() {
            Some(row) => Ok(Requeued { delivery: row.integer(0)?, repeated: true }),
            None => Err(Error::UnknownSubscription(self.get(id).await?.subscription_id)),
        }
    }

    /// Requeues those that match and have not been, oldest first, up to `limit` of them; those of deleted subscriptions
    /// are passed over. `after` is where an earlier call stopped.
    ///
    /// # Errors
    /// When the database cannot be written; what was requeued by then stays so, and nothing is requeued twice.
    pub async fn requeue_matching(
        &self,
        which: &Which,
        limit: usize,
        after: Option<i64>,
    ) -> Result<RequeuedMany, Error> {
        let which = Which { not_requeued: true, ..which.clone() };
        let (mut requeued, mut after) = (0, after.unwrap_or(0));
        while requeued < limit {
            let page = BATCH.min(limit - requeued);
            let mut asked = which.conditions();
            asked.and("saga_id > ?", after);
            let letters = self.read(asked, "order by saga_id", page).await?;
            let ids: Vec<i64> = letters.iter().map(|letter| letter.saga_id).collect();
            requeued += self.requeue_all(&ids).await?.len();
            after = ids.last().copied().unwrap_or(after);
            if ids.len() < page {
                return Ok(RequeuedMany { requeued, next: None });
            }
        }
        Ok(RequeuedMany { requeued, next: Some(after) })
    }

    /// The new deliveries of these dead letters, but for those requeued before.
    async fn requeue_all(&self, ids: &[i64]) -> Result<Vec<i64>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let values: Vec<Value> = vec![chosen(ids), self.base.now().into()];
        let rows = self.base.change(Part::DeadLetter, statement!("requeue"), values).await?;
        self.base.decide_soon();
        Ok(rows.iter().map(|row| row.integer(1)).collect::<Result<_, _>>()?)
    }

    async fn read(&self, asked: Conditions, order: &str, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let (sqlite, postgres, values) = asked.after(COLUMNS, COLUMNS, order, limit);
        let rows = self.base.read_text(Part::DeadLetter, sqlite, &postgres, values).await?;
        Ok(rows.iter().map(DeadLetter::read).collect::<Result<_, _>>()?)
    }
}

impl DeadLetter {
    fn read(row: &Record) -> Result<Self, store::Error> {
        Ok(Self {
            saga_id: row.integer(0)?,
            event_id: row.integer(1)?,
            subscription_id: row.integer(2)?,
            attempt_count: row.count(3)?,
            final_error_code: row.optional_text(4)?,
            webhook_id: row.text(5)?,
            created_at: row.time(6)?,
            requeued_as: row.optional_integer(7)?,
        })
    }
}

impl Which {
    fn conditions(&self) -> Conditions {
        let mut asked = Conditions::default();
        if let Some(subscription) = self.subscription_id {
            asked.and("subscription_id = ?", subscription);
        }
        if let Some(event) = self.event_id {
            asked.and("event_id = ?", event);
        }
        if let Some(code) = &self.final_error_code {
            asked.and("final_error_code = ?", code.as_str());
        }
        if let Some(since) = self.since {
            asked.and("created_at >= ?", since);
        }
        if let Some(until) = self.until {
            asked.and("created_at < ?", until);
        }
        if self.not_requeued {
            asked.and_that(
                "not exists (select 1 from webhook_delivery_sagas where requeue_of = dead_letters.saga_id)",
            );
        }
        asked
    }
}

/// Numbers as both dialects take them: a list in JSON.
pub(super) fn chosen(ids: &[i64]) -> Value {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    format!("[{}]", ids.join(",")).into()
}
