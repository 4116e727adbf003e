//! From a draft back to what its author could have written.

use std::time::Duration;

use backstitch::kernel::saga::draft::{
    DEFAULT_COMPENSATION_TIMEOUT, DEFAULT_STEP_TIMEOUT, DraftCompensation, default_compensation_retry,
    default_retry,
};
use backstitch::{Draft, DraftStep, Payload, Performer, Retry};
use backstitch_api::validate::shown_duration;
use serde_json::{Map, Value, json};

use super::retry;

/// Only what differs from the defaults.
pub(super) fn draft(draft: &Draft) -> Value {
    Writer { in_full: false }.draft(draft)
}

/// Everything, the defaults included.
pub(super) fn draft_in_full(draft: &Draft) -> Value {
    Writer { in_full: true }.draft(draft)
}

pub(crate) fn duration(duration: Duration) -> Value {
    Value::String(shown_duration(duration))
}

/// What a step says of its time and its tries, where it differs from the defaults.
pub(crate) fn step_timing(fields: &mut Map<String, Value>, timeout: Duration, policy: &Retry) {
    Writer { in_full: false }.step_timing(fields, timeout, policy);
}

struct Writer {
    in_full: bool,
}

impl Writer {
    fn draft(&self, draft: &Draft) -> Value {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), json!(draft.name));
        write(&mut fields, "title", draft.title.as_ref().map(|title| json!(title)));
        write(&mut fields, "metadata", draft.metadata.as_ref().map(raw));
        let goes_on = draft.continue_on_compensation_failure;
        write(&mut fields, "continue_on_compensation_failure", self.unless(!goes_on, || json!(goes_on)));
        let at_once = draft.compensation_concurrency;
        write(&mut fields, "compensation_concurrency", self.unless(at_once == 1, || json!(at_once)));
        fields.insert("steps".to_owned(), draft.steps.iter().map(|step| self.step(step)).collect());
        Value::Object(fields)
    }

    fn step(&self, step: &DraftStep) -> Value {
        let mut fields = Map::new();
        fields.insert("id".to_owned(), json!(step.id));
        write(&mut fields, "title", step.title.as_ref().map(|title| json!(title)));
        write(&mut fields, "depends_on", step.depends_on.as_ref().map(|steps| json!(steps)));
        write(&mut fields, "action", performer(&step.action).map(Value::Object));
        write(&mut fields, "compensate", step.compensate.as_ref().map(|undo| self.compensation(undo)));
        write(&mut fields, "concurrency", step.concurrency.map(|limit| json!(limit)));
        write(&mut fields, "queue_timeout", step.queue_timeout.map(duration));
        self.step_timing(&mut fields, step.timeout, &step.retry);
        Value::Object(fields)
    }

    fn compensation(&self, undo: &DraftCompensation) -> Value {
        let mut fields = performer(&undo.action).unwrap_or_default();
        write(&mut fields, "queue_timeout", undo.queue_timeout.map(duration));
        self.timing(
            &mut fields,
            (undo.timeout, &undo.retry),
            (DEFAULT_COMPENSATION_TIMEOUT, &default_compensation_retry()),
        );
        Value::Object(fields)
    }

    fn step_timing(&self, fields: &mut Map<String, Value>, timeout: Duration, policy: &Retry) {
        self.timing(fields, (timeout, policy), (DEFAULT_STEP_TIMEOUT, &default_retry()));
    }

    fn timing(
        &self,
        fields: &mut Map<String, Value>,
        (timeout, policy): (Duration, &Retry),
        (usual_timeout, usual_policy): (Duration, &Retry),
    ) {
        write(fields, "timeout", self.unless(timeout == usual_timeout, || duration(timeout)));
        write(fields, "retry", self.unless(policy == usual_policy, || retry::show(policy)));
    }

    fn unless(&self, is_default: bool, value: impl FnOnce() -> Value) -> Option<Value> {
        (self.in_full || !is_default).then(value)
    }
}

pub(crate) fn write(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value);
    }
}

/// A call is kept as it was declared; code has no written form.
pub(crate) fn performer(performer: &Performer) -> Option<Map<String, Value>> {
    let written = match performer {
        Performer::Code => return None,
        Performer::Call(call) => raw(call),
        Performer::Worker { queue } => json!({ "worker": { "queue": queue } }),
    };
    match written {
        Value::Object(fields) => Some(fields),
        other => Some(Map::from_iter([("call".to_owned(), other)])),
    }
}

fn raw(payload: &Payload) -> Value {
    // A payload is JSON by its nature.
    payload.decode().unwrap_or_default()
}
