//! Deliveries as they stand, and what came of their attempts.

use std::sync::Arc;
use std::time::Duration;

use backstitch::kernel::delivery::Status;
use backstitch::{Timestamp, store};

use super::base::{Base, Part};
use super::error::Error;
use super::jobs::Sent;
use super::page::{Conditions, Page, Search, beyond};
use super::status::{delivery_status, delivery_word};
use crate::question::{Record, Statement, statement};

/// Attempts shown of one delivery.
const ATTEMPTS: usize = 1_000;

/// Reads deliveries.
pub struct Deliveries {
    base: Arc<Base>,
}

/// A delivery saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saga {
    /// Its number.
    pub id: i64,
    /// The event.
    pub event_id: i64,
    /// The subscription.
    pub subscription_id: i64,
    /// Where it stands.
    pub status: Status,
    /// Results that counted so far.
    pub attempt_count: u32,
    /// When the next attempt may begin.
    pub next_attempt_at: Timestamp,
    /// Why the last attempt failed.
    pub final_error_code: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its newest job.
    pub job_id: Option<i64>,
    /// The message id that the receiver sees.
    pub webhook_id: String,
    /// The dead letter it was made from.
    pub requeue_of: Option<i64>,
    /// The replay it was made by.
    pub replay_id: Option<String>,
}

/// The delivery that has been due longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestDue {
    /// Since when it has been due.
    pub due_at: Timestamp,
    /// The delivery.
    pub delivery: i64,
    /// Its subscription.
    pub subscription: i64,
}

impl Saga {
    fn read(row: &Record) -> Result<Self, store::Error> {
        let word = row.text(3)?;
        let no_status = || store::Error::Refused(format!("a delivery has the status `{word}`"));
        Ok(Self {
            id: row.integer(0)?,
            event_id: row.integer(1)?,
            subscription_id: row.integer(2)?,
            status: delivery_status(&word).ok_or_else(no_status)?,
            attempt_count: row.count(4)?,
            next_attempt_at: row.time(5)?,
            final_error_code: row.optional_text(6)?,
            created_at: row.time(7)?,
            updated_at: row.time(8)?,
            job_id: row.optional_integer(9)?,
            webhook_id: row.text(10)?,
            requeue_of: row.optional_integer(11)?,
            replay_id: row.optional_text(12)?,
        })
    }
}

/// What came of an attempt, or of a job that ended before it was made: every result that counts is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its job.
    pub job_id: i64,
    /// Which attempt of its delivery, from 1.
    pub number: u32,
    /// Whether it arrived.
    pub arrived: bool,
    /// What the receiver answered with.
    pub response_code: Option<u16>,
    /// The start of its answer.
    pub body: Option<String>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// What programs tell apart.
    pub error_code: Option<String>,
    /// What people read.
    pub error: Option<String>,
    /// When it was begun.
    pub started_at: Option<Timestamp>,
    /// When its end was reported.
    pub finished_at: Timestamp,
    /// What was sent, where anything was.
    pub sent: Option<Sent>,
}

impl Attempt {
    fn read(row: &Record) -> Result<Self, store::Error> {
        Ok(Self {
            job_id: row.integer(0)?,
            number: row.count(1)?,
            arrived: row.text(2)? == delivery_word(Status::Completed),
            response_code: row.optional_integer(3)?.and_then(|code| u16::try_from(code).ok()),
            body: row.optional_text(4)?,
            duration: row.optional_integer(5)?.map(|millis| Duration::from_millis(millis.unsigned_abs())),
            error_code: row.optional_text(6)?,
            error: row.optional_text(7)?,
            started_at: row.optional_time(8)?,
            finished_at: row.time(9)?,
            sent: Sent::kept(row.optional_text(10)?, row.optional_text(11)?),
        })
    }
}

/// An event as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub id: i64,
    /// The client's own id, or one made for it.
    pub uid: String,
    /// What kind of thing happened.
    pub kind: String,
    /// The message id that receivers see.
    pub webhook_id: String,
    /// What is sent, exactly so.
    pub payload: String,
    /// When it came.
    pub created_at: Timestamp,
}

/// Which deliveries are asked for.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those that stand there.
    pub status: Option<Status>,
    /// Those of a subscription.
    pub subscription_id: Option<i64>,
    /// Those of an event.
    pub event_id: Option<i64>,
}

impl Filter {
    /// Where only a status is asked for, which has an index of its own.
    fn only_status(&self) -> Option<Status> {
        let Self { status, subscription_id, event_id } = self;
        status.filter(|_| subscription_id.is_none() && event_id.is_none())
    }

    /// Nothing finds those of a subscription by where they stand too.
    fn conditions(&self) -> Conditions {
        let mut asked = Conditions::default();
        if let Some(event) = self.event_id {
            asked.find("event_id = ?", event);
        }
        if let Some(subscription) = self.subscription_id {
            asked.find("subscription_id = ?", subscription);
        }
        if let Some(status) = self.status {
            asked.want("status = ?", delivery_word(status));
        }
        asked
    }
}

impl Deliveries {
    pub(super) fn on(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(super) fn base(&self) -> &Base {
        &self.base
    }

    /// Those that match, newest first, a page at a time. A page of a subscription's deliveries by status may have fewer than
    /// asked for, or none, and another one follow: no more is looked at for one than it can take.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(
        &self,
        filter: &Filter,
        limit: usize,
        before: Option<i64>,
    ) -> Result<Page<Saga>, Error> {
        if let Some(status) = filter.only_status() {
            return self.list_by_status(status, limit, before).await;
        }
        let Statement { sqlite, postgres } = statement!("webhooks/load_delivery");
        let asked = filter.conditions();
        let mut search = Search::new(limit, before, &asked);
        loop {
            let mut asked = asked.clone();
            asked.find("id < ?", search.before);
            let [sqlite, postgres] = asked.texts(until_where(sqlite), until_where(postgres), "id desc");
            let values = asked.values(search.at_once);
            let rows = self.base.read_text(Part::Reading, sqlite, &postgres, values).await?;
            let saga = |row: &Record| Ok::<_, store::Error>((Saga::read(row)?, row.flag(13)?));
            let rows = rows.iter().map(saga).collect::<Result<_, _>>()?;
            if let Some(page) = search.take(rows, |saga| saga.id) {
                return Ok(page);
            }
        }
    }

    async fn list_by_status(
        &self,
        status: Status,
        limit: usize,
        before: Option<i64>,
    ) -> Result<Page<Saga>, Error> {
        let values =
            vec![delivery_word(status).into(), before.unwrap_or(i64::MAX).into(), beyond(limit).into()];
        let rows = self.base.read(Part::Reading, statement!("webhooks/deliveries_by_status"), values).await?;
        let sagas = rows.iter().map(Saga::read).collect::<Result<_, _>>()?;
        Ok(Page::of(sagas, limit, |saga| saga.id))
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number, or the database cannot be read.
    pub async fn get(&self, id: i64) -> Result<Saga, Error> {
        let rows =
            self.base.read(Part::Reading, statement!("webhooks/load_delivery"), vec![id.into()]).await?;
        Ok(Saga::read(rows.first().ok_or(Error::UnknownDelivery(id))?)?)
    }

    /// What came of the attempts of a delivery, in their order.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn attempts(&self, delivery: i64) -> Result<Vec<Attempt>, Error> {
        let values = vec![delivery.into(), ATTEMPTS.into()];
        let rows = self.base.read(Part::Reading, statement!("webhooks/attempts"), values).await?;
        Ok(rows.iter().map(Attempt::read).collect::<Result<_, _>>()?)
    }

    /// The delivery that has been due longest; nothing where none is due.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn oldest_due(&self) -> Result<Option<OldestDue>, Error> {
        let rows =
            self.base.read(Part::Reading, statement!("webhooks/oldest_due"), self.base.now_in_file()).await?;
        let oldest = |row: &Record| {
            Ok::<_, store::Error>(OldestDue {
                due_at: row.time(0)?,
                delivery: row.integer(1)?,
                subscription: row.integer(2)?,
            })
        };
        // One of each status. To order so few here keeps a sort out of the plan.
        let oldest: Vec<OldestDue> = rows.iter().map(oldest).collect::<Result<_, _>>()?;
        Ok(oldest.into_iter().min_by_key(|it| it.due_at).filter(|it| it.due_at <= self.base.now()))
    }

    /// An event; `None` when it was pruned, or never told.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn event(&self, id: i64) -> Result<Option<Event>, Error> {
        let rows = self.base.read(Part::Reading, statement!("webhooks/load_event"), vec![id.into()]).await?;
        let event = |row: &Record| {
            Ok::<_, store::Error>(Event {
                id: row.integer(0)?,
                uid: row.text(1)?,
                kind: row.text(2)?,
                webhook_id: row.text(3)?,
                payload: row.text(4)?,
                created_at: row.time(5)?,
            })
        };
        Ok(rows.first().map(event).transpose()?)
    }
}

/// The part of a statement that says which columns of which table.
fn until_where(statement: &str) -> &str {
    statement.split("where").next().unwrap_or(statement)
}
