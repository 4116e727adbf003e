//! What is removed, as JSON documents.

use backstitch_kernel::saga::{Recorded, codec};
use backstitch_kernel::{Payload, SagaId, StepId};
use serde::Serialize;
use serde_json::value::RawValue;

use super::removal::NotPruned;
use crate::outbox::sink::Undelivered;
use crate::rfc3339::Rfc3339;
use crate::store::Stored;
use crate::store::outbox::Kept;
use crate::store::retention::Key;

/// A document as a line of an export.
///
/// # Errors
/// When it has no JSON form.
pub fn line(document: &impl Serialize) -> Result<String, NotPruned> {
    serde_json::to_string(document).map_err(|why| NotPruned::Export(format!("it has no JSON form: {why}")))
}

/// A saga with its log, as the database has them.
#[derive(Serialize)]
pub(super) struct SagaLine<'a> {
    kind: &'static str,
    id: SagaId,
    definition: &'a str,
    version: u32,
    status: &'static str,
    failed_step: Option<&'a str>,
    correlation_id: Option<&'a str>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
    keys: Vec<KeyOfSaga<'a>>,
    log: Vec<EventLine>,
}

#[derive(Serialize)]
struct KeyOfSaga<'a> {
    scope: &'a str,
    key: &'a str,
}

#[derive(Serialize)]
struct EventLine {
    seq: u64,
    at: Rfc3339,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

impl<'a> SagaLine<'a> {
    pub(super) fn of(stored: &'a Stored, keys: &'a [Key]) -> Result<Self, NotPruned> {
        let row = &stored.summary;
        let its_own = keys.iter().filter(|key| key.saga == Some(row.id));
        Ok(Self {
            kind: "saga",
            id: row.id,
            definition: &row.definition,
            version: row.version,
            status: row.status.as_str(),
            failed_step: row.failed_step.as_ref().map(StepId::as_str),
            correlation_id: row.correlation_id.as_deref(),
            created_at: Rfc3339(row.created_at),
            updated_at: Rfc3339(row.updated_at),
            keys: its_own.map(|key| KeyOfSaga { scope: &key.scope, key: &key.key }).collect(),
            log: stored.log.iter().map(event).collect::<Result<_, _>>()?,
        })
    }
}

fn event(recorded: &Recorded) -> Result<EventLine, NotPruned> {
    let event = &recorded.event;
    let data = codec::data(event).map(RawValue::from_string).transpose();
    Ok(EventLine {
        seq: recorded.seq,
        at: Rfc3339(recorded.at),
        r#type: event.name(),
        step: event.step().map(|step| step.as_str().to_owned()),
        attempt: event.attempt(),
        data: data.map_err(|why| NotPruned::Export(format!("an event has no JSON form: {why}")))?,
    })
}

/// A message of the outbox.
#[derive(Serialize)]
pub(super) struct MessageLine<'a> {
    kind: &'static str,
    id: i64,
    topic: &'a str,
    idempotency_key: &'a str,
    ordering_key: Option<&'a str>,
    payload: &'a Payload,
    status: &'static str,
    attempts: u32,
    in_doubt: bool,
    retry_of: Option<i64>,
    error: Option<ErrorLine<'a>>,
    result: Option<&'a Payload>,
    created_at: Rfc3339,
    updated_at: Rfc3339,
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    code: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Kept> for MessageLine<'a> {
    fn from(kept: &'a Kept) -> Self {
        let told = |error: &'a Undelivered| ErrorLine { code: &error.code, message: &error.message };
        Self {
            kind: "message",
            id: kept.id,
            topic: &kept.message.topic,
            idempotency_key: &kept.message.idempotency_key,
            ordering_key: kept.message.ordering_key.as_deref(),
            payload: &kept.message.payload,
            status: kept.status.as_str(),
            attempts: kept.attempts,
            in_doubt: kept.in_doubt,
            retry_of: kept.retry_of,
            error: kept.last_error.as_ref().map(told),
            result: kept.result.as_ref(),
            created_at: Rfc3339(kept.created_at),
            updated_at: Rfc3339(kept.updated_at),
        }
    }
}

/// A row of the ledger.
#[derive(Serialize)]
pub(super) struct KeyLine<'a> {
    kind: &'static str,
    scope: &'a str,
    key: &'a str,
    digest: String,
    state: &'a str,
    result: Option<&'a Payload>,
    at: Rfc3339,
}

impl<'a> From<&'a Key> for KeyLine<'a> {
    fn from(key: &'a Key) -> Self {
        Self {
            kind: "key",
            scope: &key.scope,
            key: &key.key,
            digest: key.digest.to_string(),
            state: &key.state,
            result: key.result.as_ref(),
            at: Rfc3339(key.at),
        }
    }
}
