//! Events as rows: a name, a step, an attempt and the rest as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::{Event, Outside, Phase, Resolution, Started};
use crate::error::StepError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::row::LogRow;
pub use crate::row::Unreadable;
use crate::time::Timestamp;

#[derive(Default, Serialize, Deserialize)]
struct Data<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'a, StepError>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_doubt: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<Resolution>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    results: Option<Cow<'a, BTreeMap<StepId, Payload>>>,
}

/// The JSON part of an event's row; `None` if name, step and attempt are enough.
#[must_use]
pub fn data(event: &Event) -> Option<String> {
    let data = match event {
        // The two most frequent events, and the one with the caller's text, are encoded without serde.
        Event::StepStarted { outside: None, .. }
        | Event::SagaSucceeded
        | Event::StepCompensating { outside: None, .. } => return None,
        Event::StepSucceeded { result, .. } | Event::StepCompensated { result, .. } => {
            return result_data(result);
        }
        Event::SagaCompensated { results } if results.is_empty() => return None,
        Event::SagaCompensated { results } => {
            Data { results: Some(Cow::Borrowed(results)), ..Data::default() }
        }
        Event::SagaStarted(started) => return serde_json::to_string(&**started).ok(),
        Event::StepStarted { outside: Some(outside), .. }
        | Event::StepCompensating { outside: Some(outside), .. } => Data {
            queue: Some(Cow::Borrowed(&outside.queue)),
            queue_until: outside.queue_until,
            until: outside.until,
            ..Data::default()
        },
        Event::StepLeased { phase, until, .. } => {
            Data { phase: Some(*phase), until: Some(*until), ..Data::default() }
        }
        Event::SagaFailed { error, .. }
        | Event::SagaCompensating { error, .. }
        | Event::StepTimedOut { error, .. }
        | Event::StepCompensationFailed { error, .. } => {
            Data { error: Some(Cow::Borrowed(error)), ..Data::default() }
        }
        Event::StepFailed { error, in_doubt, .. } => {
            Data { error: Some(Cow::Borrowed(error)), in_doubt: *in_doubt, ..Data::default() }
        }
        Event::StepRetry { phase, max_attempts, error, retry_at, .. } => Data {
            error: Some(Cow::Borrowed(error)),
            phase: Some(*phase),
            max_attempts: Some(*max_attempts),
            retry_at: Some(*retry_at),
            ..Data::default()
        },
        Event::SagaPaused { note } | Event::SagaResumed { note } => {
            Data { note: Some(Cow::Borrowed(note)), ..Data::default() }
        }
        Event::StepResolved { action, note, .. } => {
            Data { action: Some(*action), note: Some(Cow::Borrowed(note)), ..Data::default() }
        }
        Event::SagaAdopted { node, epoch } => {
            Data { node: Some(Cow::Borrowed(node)), epoch: Some(*epoch), ..Data::default() }
        }
    };
    serde_json::to_string(&data).ok()
}

/// Encoded without serde, since every step writes it.
fn result_data(result: &Payload) -> Option<String> {
    match (result.is_unparsed(), result.is_null()) {
        (true, _) => Some(format!("{{\"result\":{},\"unparsed\":true}}", result.as_str())),
        (false, true) => None,
        (false, false) => Some(format!("{{\"result\":{}}}", result.as_str())),
    }
}

/// Reads an event back from its row.
///
/// # Errors
/// When the type is unknown, a column is missing, or the JSON is not of its shape.
pub fn event(
    name: &str,
    step: Option<&str>,
    attempt: Option<u32>,
    data: Option<&str>,
) -> Result<Event, Unreadable> {
    let row = LogRow { name, step, attempt, data };
    Ok(match name {
        "saga.started" => Event::SagaStarted(Arc::new(row.json::<Started>()?)),
        "saga.succeeded" => Event::SagaSucceeded,
        "saga.failed" => Event::SagaFailed { step: row.step()?, error: row.error()? },
        "saga.compensating" => {
            Event::SagaCompensating { failed_step: step.map(StepId::from), error: row.error()? }
        }
        "saga.compensated" => Event::SagaCompensated { results: row.results()? },
        "saga.paused" => Event::SagaPaused { note: row.note()? },
        "saga.resumed" => Event::SagaResumed { note: row.note()? },
        "saga.adopted" => {
            let data: Data<'_> = row.json()?;
            Event::SagaAdopted {
                node: row.present("data.node", data.node)?.into_owned(),
                epoch: row.present("data.epoch", data.epoch)?,
            }
        }
        "step.started" => {
            Event::StepStarted { step: row.step()?, attempt: row.attempt()?, outside: row.outside()? }
        }
        "step.leased" => {
            let data: Data<'_> = row.json()?;
            Event::StepLeased {
                step: row.step()?,
                attempt: row.attempt()?,
                phase: row.present("data.phase", data.phase)?,
                until: row.present("data.until", data.until)?,
            }
        }
        "step.succeeded" => {
            Event::StepSucceeded { step: row.step()?, attempt: row.attempt()?, result: row.result()? }
        }
        "step.failed" => {
            let data: Data<'_> = row.json()?;
            Event::StepFailed {
                step: row.step()?,
                attempt: row.attempt()?,
                in_doubt: data.in_doubt,
                error: row.present("data.error", data.error)?.into_owned(),
            }
        }
        "step.timed_out" => {
            Event::StepTimedOut { step: row.step()?, attempt: row.attempt()?, error: row.error()? }
        }
        "step.retry" => {
            let data: Data<'_> = row.json()?;
            Event::StepRetry {
                step: row.step()?,
                attempt: row.attempt()?,
                phase: row.present("data.phase", data.phase)?,
                max_attempts: row.present("data.max_attempts", data.max_attempts)?,
                retry_at: row.present("data.retry_at", data.retry_at)?,
                error: row.present("data.error", data.error)?.into_owned(),
            }
        }
        "step.compensating" => {
            Event::StepCompensating { step: row.step()?, attempt: row.attempt()?, outside: row.outside()? }
        }
        "step.compensated" => {
            Event::StepCompensated { step: row.step()?, attempt: row.attempt()?, result: row.result()? }
        }
        "step.compensation_failed" => {
            Event::StepCompensationFailed { step: row.step()?, attempt: row.attempt()?, error: row.error()? }
        }
        "step.resolved" => {
            let data: Data<'_> = row.json()?;
            Event::StepResolved {
                step: row.step()?,
                action: row.present("data.action", data.action)?,
                note: row.present("data.note", data.note)?.into_owned(),
            }
        }
        unknown => return Err(Unreadable::UnknownType(unknown.to_owned())),
    })
}

impl LogRow<'_> {
    fn step(&self) -> Result<StepId, Unreadable> {
        self.present("step", self.step).map(StepId::from)
    }

    fn error(&self) -> Result<StepError, Unreadable> {
        let data: Data<'_> = self.json()?;
        self.present("data.error", data.error).map(Cow::into_owned)
    }

    fn note(&self) -> Result<String, Unreadable> {
        let data: Data<'_> = self.json()?;
        self.present("data.note", data.note).map(Cow::into_owned)
    }

    fn outside(&self) -> Result<Option<Outside>, Unreadable> {
        if self.data.is_none() {
            return Ok(None);
        }
        let data: Data<'_> = self.json()?;
        Ok(Some(Outside {
            queue: self.present("data.queue", data.queue)?.as_ref().into(),
            queue_until: data.queue_until,
            until: data.until,
        }))
    }

    /// Empty in logs of versions without results.
    fn results(&self) -> Result<BTreeMap<StepId, Payload>, Unreadable> {
        if self.data.is_none() {
            return Ok(BTreeMap::new());
        }
        let data: Data<'_> = self.json()?;
        Ok(data.results.map(Cow::into_owned).unwrap_or_default())
    }

    fn result(&self) -> Result<Payload, Unreadable> {
        #[derive(Deserialize)]
        struct Result {
            result: Payload,
            #[serde(default)]
            unparsed: bool,
        }
        if self.data.is_none() {
            return Ok(Payload::null());
        }
        self.json::<Result>().map(|data| data.result.marked_unparsed(data.unparsed))
    }
}
