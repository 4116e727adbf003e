//! Which alerts are removed: those that were acknowledged long ago. An open alert stays, however old it is.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::Clock;
use backstitch::retention::{Area, CandidatePage, Line, NotPruned, Prunable, line};
use backstitch::store::parked::MESSAGE_RETENTION;
use backstitch::store::retention::Bulk;
use backstitch::store::{Corrupt, Error, Store};
use backstitch::{Engine, Rfc3339, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::list::{Row, old};
use crate::retention::before;

/// How many are looked at together.
const PAGE: usize = 100;

/// The area of alerts that were acknowledged so long ago, for [`Engine::prune_with`]; none, unless told. Each goes with its
/// notices and its acknowledgement, and is exported with them.
#[must_use]
pub fn retention(engine: &Engine, age: Option<Duration>) -> Option<Area> {
    let (store, clock) = (Arc::downgrade(engine.store()), engine.clock().clone());
    Some(Area::new(AcknowledgedAlerts { store, clock, age: age? }))
}

struct AcknowledgedAlerts {
    store: Weak<dyn Store>,
    clock: Arc<dyn Clock>,
    age: Duration,
}

/// The rows of one alert: itself, once for each of its notices.
#[derive(Clone)]
struct Alert {
    id: i64,
    rows: Arc<Vec<Row>>,
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

#[async_trait]
impl Prunable for AcknowledgedAlerts {
    type Item = Alert;
    /// The look begins with the earliest acknowledgement each time.
    type Place = ();

    const PARKED_IN: &'static str = MESSAGE_RETENTION;
    const ITEM: &'static str = "alert";
    const ITEMS: &'static str = "alerts";

    fn age(&self) -> Duration {
        self.age
    }

    async fn page(&self, _: Option<()>) -> Result<CandidatePage<Alert, ()>, NotPruned> {
        let Some(store) = self.store.upgrade() else { return Ok(CandidatePage::before(None, Vec::new())) };
        let mut alerts: Vec<(i64, Vec<Row>)> = Vec::new();
        for row in old(&*store, before(self.clock.now(), self.age), PAGE).await? {
            match alerts.last_mut().filter(|(id, _)| *id == row.id) {
                Some((_, rows)) => rows.push(row),
                None => alerts.push((row.id, vec![row])),
            }
        }
        let more = alerts.len() == PAGE;
        let with_bulk = |(id, rows): (i64, Vec<Row>)| {
            let bytes = rows.first().map_or(0, |row| row.payload.len() as u64);
            let bulk = Bulk { rows: rows.len() as u64 + 1, bytes };
            (Alert { id, rows: Arc::new(rows) }, bulk)
        };
        Ok(CandidatePage { items: alerts.into_iter().map(with_bulk).collect(), next: None, more })
    }

    async fn lines(&self, alerts: Vec<Alert>) -> Result<Vec<Line<Alert>>, NotPruned> {
        let line = |alert: Alert| {
            let line = exported(alert.rows.first()?, &alert.rows);
            Some((alert, line))
        };
        Ok(alerts.into_iter().filter_map(line).collect())
    }

    async fn remove(&self, alerts: Vec<Alert>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let Some(store) = self.store.upgrade() else { return Ok(Vec::new()) };
        let ids: Vec<i64> = alerts.iter().map(|alert| alert.id).collect();
        Ok(vec![(Self::ITEMS, store.remove_messages(&ids).await?)])
    }
}

fn exported(first: &Row, alert: &[Row]) -> Result<String, NotPruned> {
    let payload: &RawValue = serde_json::from_str(&first.payload).map_err(|why| {
        let (table, column, id, why) = ("outbox", "payload", first.id.to_string(), why.to_string());
        Error::from(Corrupt { table, column, id, why })
    })?;
    let at = |micros: i64| Rfc3339(Timestamp::from_micros(micros));
    let notices = alert.iter().filter_map(|row| {
        Some(NoticeLine {
            channel: row.channel.as_deref()?,
            recipient: row.recipient.as_deref().filter(|recipient| !recipient.is_empty()),
            attempts: row.attempts.unwrap_or_default(),
            notified_at: row.notified_at.map(at),
            last_error: row.last_error.as_deref(),
        })
    });
    line(&AlertLine {
        kind: "alert",
        id: first.id,
        key: &first.key,
        payload,
        created_at: at(first.created_at),
        notices: notices.collect(),
        acknowledged: first.acknowledged().map(|taken| TakenLine {
            by: taken.by,
            note: taken.note,
            at: Rfc3339(taken.at),
        }),
    })
}

#[derive(Serialize)]
struct AlertLine<'a> {
    kind: &'static str,
    id: i64,
    key: &'a str,
    payload: &'a RawValue,
    created_at: Rfc3339,
    notices: Vec<NoticeLine<'a>>,
    acknowledged: Option<TakenLine>,
}

#[derive(Serialize)]
struct NoticeLine<'a> {
    channel: &'a str,
    recipient: Option<&'a str>,
    attempts: i32,
    notified_at: Option<Rfc3339>,
    last_error: Option<&'a str>,
}

#[derive(Serialize)]
struct TakenLine {
    by: String,
    note: String,
    at: Rfc3339,
}
