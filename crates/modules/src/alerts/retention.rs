//! Removes alerts that somebody took upon them long ago. One that nobody has acknowledged stays, however old it is.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::Clock;
use backstitch::retention::{NotPruned, Pruner, Removal, fitting};
use backstitch::store::parked::MESSAGE_RETENTION;
use backstitch::store::retention::Bulk;
use backstitch::store::{Corrupt, Error, Store};
use backstitch::{Engine, Rfc3339, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::list::{Row, old};
use crate::removal::{before, line};

/// How many are looked at together.
const PAGE: usize = 100;

/// What removes alerts that were acknowledged so long ago, for [`Engine::prune_with`]; nothing, unless told. Each goes with who
/// was told of it and who took it upon them, and is exported with them.
#[must_use]
pub fn retention(engine: &Engine, age: Option<Duration>) -> Arc<dyn Pruner> {
    Arc::new(Acknowledged { store: Arc::downgrade(engine.store()), clock: engine.clock().clone(), age })
}

struct Acknowledged {
    store: Weak<dyn Store>,
    clock: Arc<dyn Clock>,
    age: Option<Duration>,
}

#[async_trait]
impl Pruner for Acknowledged {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let (Some(age), Some(store)) = (self.age, self.store.upgrade()) else { return Ok(false) };
        let rows = old(&*store, before(self.clock.now(), age), PAGE).await?;
        let mut alerts: Vec<Vec<Row>> = Vec::new();
        for row in rows {
            match alerts.last_mut().filter(|alert| alert.first().is_some_and(|first| first.id == row.id)) {
                Some(alert) => alert.push(row),
                None => alerts.push(vec![row]),
            }
        }
        let bulk = |alert: &Vec<Row>| {
            let bytes = alert.first().map_or(0, |row| row.payload.len() as u64);
            Bulk { rows: alert.len() as u64 + 1, bytes }
        };
        let together = fitting(alerts.iter().map(bulk));
        let mut going = Vec::with_capacity(together);
        let mut lines = HashMap::with_capacity(together);
        for alert in alerts.iter().take(together) {
            let Some(first) = alert.first() else { continue };
            match exported(first, alert) {
                Ok(line) => lines.insert(first.id, line),
                Err(error) if error.is_of_one_row() => {
                    removal.passed_over(&format_args!("alert {}", first.id), &error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            going.push(first.id);
        }
        if going.is_empty() {
            return Ok(false);
        }
        let export = |going: Vec<i64>| async move {
            let mut lines = lines;
            removal.export("alerts", going.iter().filter_map(|id| lines.remove(id)).collect()).await?;
            Ok(going)
        };
        let remove = |going: Vec<i64>| {
            let store = store.clone();
            async move { Ok(store.remove_messages(&going).await?) }
        };
        let removed: u64 =
            removal.isolated(MESSAGE_RETENTION, "alert", going, export, remove).await?.into_iter().sum();
        removal.removed("alerts", removed);
        Ok(removed > 0 && (together < alerts.len() || alerts.len() == PAGE))
    }

    fn shortest(&self) -> Option<Duration> {
        self.age
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
