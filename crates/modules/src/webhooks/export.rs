//! What is pruned, as JSON documents.

use std::collections::HashMap;

use backstitch::Rfc3339;
use backstitch::retention::{Line, NotPruned, line};
use backstitch::store::Error;
use serde::Serialize;

use super::base::{Base, Part};
use super::jobs::Sent;
use crate::question::{Record, chosen, statement};
use crate::retention::misread;

#[derive(Serialize)]
struct Delivery {
    kind: &'static str,
    id: i64,
    event_id: i64,
    subscription_id: i64,
    status: String,
    attempt_count: u32,
    final_error_code: Option<String>,
    webhook_id: String,
    requeue_of: Option<i64>,
    replay_id: Option<String>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
    attempts: Vec<Attempt>,
}

#[derive(Serialize)]
struct Attempt {
    job_id: i64,
    number: u32,
    status: String,
    started_at: Option<Rfc3339>,
    finished_at: Rfc3339,
    duration_ms: Option<i64>,
    response_code: Option<i64>,
    error_code: Option<String>,
    error: Option<String>,
    body: Option<String>,
    url: Option<String>,
    headers: Vec<String>,
}

#[derive(Serialize)]
struct Event {
    kind: &'static str,
    id: i64,
    uid: String,
    r#type: String,
    webhook_id: String,
    /// The text exactly as it was given, since it is what was signed.
    payload: String,
    created_at: Rfc3339,
}

/// These deliveries with their attempts. A dead letter says nothing that its delivery does not.
pub(super) async fn deliveries(base: &Base, ids: &[i64]) -> Result<Vec<Line<i64>>, NotPruned> {
    let ids = vec![chosen(ids)];
    let rows = base.read(Part::Retention, statement!("webhooks/export_attempts"), ids.clone()).await?;
    let mut attempts: HashMap<i64, Vec<&Record>> = HashMap::new();
    for row in &rows {
        attempts.entry(row.integer(0)?).or_default().push(row);
    }
    let rows = base.read(Part::Retention, statement!("webhooks/export_deliveries"), ids).await?;
    let document = |row: &Record| {
        let id = row.integer(0)?;
        let attempts = attempts.get(&id).map(Vec::as_slice).unwrap_or_default();
        let delivery = delivery(row, attempts).map_err(misread);
        Ok((id, delivery.and_then(|delivery| line(&delivery))))
    };
    rows.iter().map(document).collect()
}

fn delivery(row: &Record, attempts: &[&Record]) -> Result<Delivery, Error> {
    let id = row.integer(0)?;
    Ok(Delivery {
        kind: "delivery",
        id,
        event_id: row.integer(1)?,
        subscription_id: row.integer(2)?,
        status: row.text(3)?,
        attempt_count: row.count(4)?,
        final_error_code: row.optional_text(5)?,
        webhook_id: row.text(6)?,
        requeue_of: row.optional_integer(7)?,
        replay_id: row.optional_text(8)?,
        created_at: Rfc3339(row.time(9)?),
        updated_at: Rfc3339(row.time(10)?),
        attempts: attempts.iter().map(|row| attempt(row)).collect::<Result<_, _>>()?,
    })
}

fn attempt(row: &Record) -> Result<Attempt, Error> {
    let (url, headers) = Sent::kept(row.optional_text(11)?, row.optional_text(12)?)
        .map_or((None, Vec::new()), |sent| (Some(sent.url), sent.headers));
    Ok(Attempt {
        url,
        headers,
        job_id: row.integer(1)?,
        number: row.count(2)?,
        status: row.text(3)?,
        started_at: row.optional_time(4)?.map(Rfc3339),
        finished_at: Rfc3339(row.time(5)?),
        duration_ms: row.optional_integer(6)?,
        response_code: row.optional_integer(7)?,
        error_code: row.optional_text(8)?,
        error: row.optional_text(9)?,
        body: row.optional_text(10)?,
    })
}

/// These events.
pub(super) async fn events(base: &Base, ids: &[i64]) -> Result<Vec<Line<i64>>, NotPruned> {
    let rows = base.read(Part::Retention, statement!("webhooks/export_events"), vec![chosen(ids)]).await?;
    let event = |row: &Record| {
        Ok::<_, Error>(Event {
            kind: "event",
            id: row.integer(0)?,
            uid: row.text(1)?,
            r#type: row.text(2)?,
            webhook_id: row.text(3)?,
            payload: row.text(4)?,
            created_at: Rfc3339(row.time(5)?),
        })
    };
    let document = |row: &Record| {
        let event = event(row).map_err(misread);
        Ok((row.integer(0)?, event.and_then(|event| line(&event))))
    };
    rows.iter().map(document).collect()
}
