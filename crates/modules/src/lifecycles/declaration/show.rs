//! From a draft back to what its author could have written.

use std::collections::BTreeMap;

use backstitch::kernel::lifecycle::draft::Allowed;
use backstitch::kernel::lifecycle::{Draft, DraftAction};
use serde_json::{Map, Value, json};

use crate::declaration::show::{duration, performer, step_timing, write};

/// Only what differs from the defaults.
pub(super) fn draft(draft: &Draft) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(draft.name));
    write(&mut fields, "title", draft.title.as_ref().map(|title| json!(title)));
    write(&mut fields, "subject", draft.subject.as_ref().map(|subject| json!(subject)));
    fields.insert("initial".to_owned(), json!(draft.initial));
    fields.insert("states".to_owned(), json!(draft.states));
    let actions = draft.actions.iter().map(|(state, it)| (state.clone(), action(it)));
    let times = |times: &BTreeMap<String, Allowed>| {
        Value::Object(times.iter().map(|(state, allowed)| (state.clone(), duration(allowed.0))).collect())
    };
    for (name, value) in [
        ("terminal", json!(draft.terminal)),
        ("pause", json!(draft.pause)),
        ("pause_expires", times(&draft.pause_expires)),
        ("edges", json!(draft.edges)),
        ("can_fail", json!(draft.can_fail)),
        ("error_kinds", json!(draft.error_kinds)),
        ("actions", Value::Object(actions.collect())),
        ("stuck_after", times(&draft.stuck_after)),
    ] {
        write(&mut fields, name, Some(value).filter(|value| !is_empty(value)));
    }
    Value::Object(fields)
}

fn action(action: &DraftAction) -> Value {
    let mut fields = action.performer.as_ref().and_then(performer).unwrap_or_default();
    // Where nothing is done there is no time that it takes.
    if !fields.is_empty() {
        write(&mut fields, "queue_timeout", action.queue_timeout.map(duration));
        step_timing(&mut fields, action.timeout, &action.retry);
    }
    fields.insert("next".to_owned(), json!(action.next));
    Value::Object(fields)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}
