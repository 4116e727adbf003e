//! Events as rows: a name, a state, an attempt and the rest as JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::{Event, Given, Started};
use super::instance::Failure;
use crate::error::StepError;
use crate::payload::Payload;
use crate::row::{LogRow, Unreadable};
use crate::time::Timestamp;

#[derive(Serialize, Deserialize)]
struct Transitioned {
    from: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unparsed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Serialize, Deserialize)]
struct Failed {
    from: Arc<str>,
    #[serde(flatten)]
    failure: Failure,
}

#[derive(Serialize, Deserialize)]
struct AnotherTry {
    max_attempts: u32,
    retry_at: Timestamp,
    error: StepError,
}

#[derive(Serialize, Deserialize)]
struct Leased {
    until: Timestamp,
}

/// The JSON part of an event's row; `None` if name, state and attempt are enough.
#[must_use]
pub fn data(event: &Event) -> Option<String> {
    match event {
        Event::Started(started) => serde_json::to_string(&**started),
        Event::Restarted { given, .. } if *given == Given::default() => return None,
        Event::Restarted { given, .. } => serde_json::to_string(given),
        Event::Transitioned { from, data, error, .. } => serde_json::to_string(&Transitioned {
            from: from.clone(),
            data: data.clone(),
            unparsed: data.as_ref().is_some_and(Payload::is_unparsed),
            error: error.clone(),
        }),
        Event::Failed { from, failure, .. } => {
            serde_json::to_string(&Failed { from: from.clone(), failure: failure.clone() })
        }
        Event::ActionRetry { max_attempts, error, retry_at, .. } => serde_json::to_string(&AnotherTry {
            max_attempts: *max_attempts,
            retry_at: *retry_at,
            error: error.clone(),
        }),
        Event::ActionLeased { until, .. } => serde_json::to_string(&Leased { until: *until }),
        Event::Abandoned { reason, .. } => serde_json::to_string(reason),
    }
    .ok()
}

/// Reads an event back from its row.
///
/// # Errors
/// When the type is unknown, a column is missing, or the JSON is not of its shape.
pub fn event(
    name: &str,
    state: Option<&str>,
    attempt: Option<u32>,
    data: Option<&str>,
) -> Result<Event, Unreadable> {
    let row = LogRow { name, step: state, attempt, data };
    let attempt = row.attempt()?;
    Ok(match name {
        "lifecycle.started" => Event::Started(Arc::new(row.json::<Started>()?)),
        "lifecycle.restarted" => {
            let given = if data.is_some() { row.json()? } else { Given::default() };
            Event::Restarted { attempt, given }
        }
        "lifecycle.transitioned" => {
            let Transitioned { from, data, unparsed, error } = row.json()?;
            // A binary response is stored as `null`, which decodes to `None`.
            let data = if unparsed { Some(data.unwrap_or_default().marked_unparsed(true)) } else { data };
            Event::Transitioned { from, to: row.present("step", state)?.into(), attempt, data, error }
        }
        "lifecycle.failed" => {
            let Failed { from, failure } = row.json()?;
            Event::Failed { from, attempt, failure }
        }
        "action.retry" => {
            let AnotherTry { max_attempts, retry_at, error } = row.json()?;
            let state = row.present("step", state)?.into();
            Event::ActionRetry { state, attempt, max_attempts, error, retry_at }
        }
        "action.leased" => {
            let Leased { until } = row.json()?;
            Event::ActionLeased { state: row.present("step", state)?.into(), attempt, until }
        }
        "lifecycle.abandoned" => {
            Event::Abandoned { state: row.present("step", state)?.into(), attempt, reason: row.json()? }
        }
        unknown => return Err(Unreadable::UnknownType(unknown.to_owned())),
    })
}
