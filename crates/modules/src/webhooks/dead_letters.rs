//! Deliveries that were given up, and how they are sent after all: as new ones. The old one never changes.

use std::sync::Arc;

use backstitch::{Timestamp, store};

use super::base::{Base, Part};
use super::error::Error;
use super::page::{Conditions, LOOKED_AT, Page, Search};
use crate::question::{Record, Value, chosen, statement, tidied};

const COLUMNS: &str = "select saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at, \
    (select id from webhook_delivery_sagas where requeue_of = dead_letters.saga_id) as requeued_as from dead_letters";
/// The same of those that were not requeued, which stand by themselves.
const WAITING: &str = "select saga_id, event_id, subscription_id, attempt_count, final_error_code, webhook_id, created_at, \
    cast(null as bigint) as requeued_as from waiting_dead_letters";
/// Dead letters requeued in one transaction at most.
const BATCH: usize = 250;
/// Dead letters looked at together where they are only counted.
const COUNTED_AT_ONCE: usize = 1000;
const NEWEST_FIRST: &str = "saga_id desc";
const OLDEST_FIRST: &str = "saga_id";

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

/// The delivery whose own dead letter is refused because another program has inserted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterConflict {
    /// This delivery.
    OfDelivery(i64),
    /// The delivery of this job.
    OfJob(i64),
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
    /// Those up to this number.
    pub up_to: Option<i64>,
}

/// Those that would be requeued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requeueable {
    /// How many, up to what was asked for.
    pub count: usize,
    /// There are more.
    pub more: bool,
    /// The highest number of those that were counted.
    pub up_to: Option<i64>,
    /// When the last of them was given up.
    pub given_up: Option<Timestamp>,
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

    /// Those that match, newest first, a page at a time. A page may have fewer than asked for, or none, and another one follow:
    /// no more is looked at for one than it can take.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(
        &self,
        which: &Which,
        limit: usize,
        before: Option<i64>,
    ) -> Result<Page<DeadLetter>, Error> {
        let asked = which.conditions();
        let mut search = Search::new(limit, before, &asked);
        loop {
            let mut asked = asked.clone();
            asked.find("saga_id < ?", search.before);
            let rows = self.read(which.not_requeued, asked, NEWEST_FIRST, search.at_once).await?;
            if let Some(page) = search.take(rows, |letter| letter.saga_id) {
                return Ok(page);
            }
        }
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number, or the database cannot be read.
    pub async fn get(&self, id: i64) -> Result<DeadLetter, Error> {
        let mut asked = Conditions::default();
        asked.find("saga_id = ?", id);
        let found = self.read(false, asked, NEWEST_FIRST, 1).await?.pop();
        found.map(|(letter, _)| letter).ok_or(Error::UnknownDeadLetter(id))
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
        let rows =
            // The request that requeued it may have an unknown outcome.
            self.base.read_durably(Part::DeadLetter, statement!("webhooks/find_requeue"), vec![id.into()]).await?;
        match rows.first() {
            Some(row) => Ok(Requeued { delivery: row.integer(0)?, repeated: true }),
            None => Err(Error::UnknownSubscription(self.get(id).await?.subscription_id)),
        }
    }

    /// Requeues those that match and have not been, oldest first, up to `limit` of them; those of deleted subscriptions
    /// are passed over. `after` is where an earlier call stopped, which may be before there were as many.
    ///
    /// # Errors
    /// When the database cannot be written; what was requeued by then stays so, and nothing is requeued twice.
    pub async fn requeue_matching(
        &self,
        which: &Which,
        limit: usize,
        after: Option<i64>,
    ) -> Result<RequeuedMany, Error> {
        let asked = which.requeueable();
        let (mut requeued, mut after) = (0, after.unwrap_or(0));
        for _ in 0..LOOKED_AT / BATCH {
            let mut asked = asked.clone();
            asked.find("saga_id > ?", after);
            let letters = self.read(true, asked, OLDEST_FIRST, BATCH).await?;
            let is_last = letters.len() < BATCH;
            let mut ids = Vec::new();
            for (letter, is_wanted) in letters {
                if requeued + ids.len() == limit {
                    break;
                }
                after = letter.saga_id;
                if is_wanted {
                    ids.push(letter.saga_id);
                }
            }
            requeued += self.requeue_all(&ids).await?.len();
            if requeued >= limit {
                break;
            }
            if is_last {
                return Ok(RequeuedMany { requeued, next: None });
            }
        }
        Ok(RequeuedMany { requeued, next: Some(after) })
    }

    /// How many [`DeadLetters::requeue_matching`] would requeue, oldest first, up to `limit` of them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn requeueable(&self, which: &Which, limit: usize) -> Result<Requeueable, Error> {
        let asked = which.requeueable();
        let (mut found, mut after) = (Requeueable::default(), 0);
        loop {
            let mut asked = asked.clone();
            asked.find("saga_id > ?", after);
            let letters = self.read(true, asked, OLDEST_FIRST, COUNTED_AT_ONCE).await?;
            let is_last = letters.len() < COUNTED_AT_ONCE;
            for (letter, is_wanted) in letters {
                after = letter.saga_id;
                if !is_wanted {
                    continue;
                }
                if found.count == limit {
                    return Ok(Requeueable { more: true, ..found });
                }
                found.count += 1;
                found.up_to = Some(letter.saga_id);
                found.given_up = found.given_up.max(Some(letter.created_at));
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Removes the dead letter that keeps a delivery from being dead-lettered. Its delivery is not dead-lettered, so only
    /// another program can have inserted it. `None` if there is no such dead letter.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn remove_conflict(&self, of: LetterConflict) -> Result<Option<DeadLetter>, Error> {
        let delivery = match of {
            LetterConflict::OfDelivery(delivery) => Some(delivery),
            LetterConflict::OfJob(job) => {
                self.base.leases(Part::Retention, &[job]).await?.pop().map(|job| job.item)
            }
        };
        let Some(delivery) = delivery else { return Ok(None) };
        let remove = statement!("webhooks/remove_conflicting_letter");
        // The only role that may delete dead letters.
        let rows = self.base.change(Part::Retention, remove, vec![delivery.into()]).await?;
        Ok(rows.first().map(DeadLetter::read).transpose()?)
    }

    /// The new deliveries of these dead letters, but for those requeued before.
    async fn requeue_all(&self, ids: &[i64]) -> Result<Vec<i64>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let values: Vec<Value> = vec![chosen(ids), self.base.now().into()];
        let rows = self.base.change(Part::DeadLetter, statement!("webhooks/requeue"), values).await?;
        self.base.begin_soon();
        Ok(rows.iter().map(|row| row.integer(1)).collect::<Result<_, _>>()?)
    }

    /// Those that are found, of all or of those that were not requeued, each with whether it is wanted.
    async fn read(
        &self,
        waiting: bool,
        asked: Conditions,
        order: &str,
        limit: usize,
    ) -> Result<Vec<(DeadLetter, bool)>, Error> {
        let columns = if waiting { WAITING } else { COLUMNS };
        let [sqlite, postgres] = asked.texts(columns, columns, order);
        let rows = self.base.read_text(Part::DeadLetter, sqlite, &postgres, asked.values(limit)).await?;
        let letter = |row: &Record| Ok::<_, store::Error>((DeadLetter::read(row)?, row.flag(8)?));
        Ok(rows.iter().map(letter).collect::<Result<_, _>>()?)
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
    /// Those that can be requeued: once, and to somebody.
    fn requeueable(&self) -> Conditions {
        let mut asked = self.conditions();
        asked.want_that(
            "exists (select 1 from webhook_subscriptions as p where p.id = found.subscription_id and p.deleted_at is null)",
        );
        asked
    }

    /// What finds the fewest has an index, and finds them; the others say which of those are wanted.
    fn conditions(&self) -> Conditions {
        let mut asked = Conditions::default();
        let mut is_found = false;
        let numbers = [("event_id = ?", self.event_id), ("subscription_id = ?", self.subscription_id)];
        let numbers = numbers.into_iter().filter_map(|(condition, of)| Some((condition, Value::from(of?))));
        let code = self.final_error_code.as_deref().map(|code| ("final_error_code = ?", tidied(code).into()));
        for (condition, value) in numbers.chain(code) {
            if is_found {
                asked.want(condition, value);
            } else {
                asked.find(condition, value);
                is_found = true;
            }
        }
        if let Some(up_to) = self.up_to {
            asked.find("saga_id <= ?", up_to);
        }
        if let Some(since) = self.since {
            asked.want("created_at >= ?", since);
        }
        if let Some(until) = self.until {
            asked.want("created_at < ?", until);
        }
        asked
    }
}
