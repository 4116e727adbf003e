//! Definitions for those who may read them, and not what is known only to the services that they call: the values
//! of headers and of URLs' queries.

use backstitch::kernel::lifecycle;
use backstitch::{Draft, Payload, Performer};
use serde_json::Value;

use crate::http_call::HeaderStorage;
use crate::masked_url::masked_url;

/// What stands for a value.
const HIDDEN: &str = "•••";

/// The same definition without the values of headers and of URLs' queries.
#[must_use]
pub fn without_secrets(draft: &Draft) -> Draft {
    let mut draft = draft.clone();
    for step in &mut draft.steps {
        redact(&mut step.action);
        if let Some(undo) = &mut step.compensate {
            redact(&mut undo.action);
        }
    }
    draft
}

/// The same definition with the values of headers as they were declared, for readers who may see them.
#[must_use]
pub fn with_secrets(draft: &Draft, headers: &HeaderStorage) -> Draft {
    let mut draft = draft.clone();
    for step in &mut draft.steps {
        reveal(&mut step.action, headers);
        if let Some(undo) = &mut step.compensate {
            reveal(&mut undo.action, headers);
        }
    }
    draft
}

/// The same machine with the values of headers as they were declared, for readers who may see them.
#[must_use]
pub fn machine_with_secrets(draft: &lifecycle::Draft, headers: &HeaderStorage) -> lifecycle::Draft {
    let mut draft = draft.clone();
    let performers = draft.actions.values_mut().filter_map(|action| action.performer.as_mut());
    performers.for_each(|performer| reveal(performer, headers));
    draft
}

fn reveal(performer: &mut Performer, headers: &HeaderStorage) {
    if let Performer::Call(call) = performer {
        *call = headers.shown(call);
    }
}

/// The same machine without the values of headers and of URLs' queries.
#[must_use]
pub fn machine_without_secrets(draft: &lifecycle::Draft) -> lifecycle::Draft {
    let mut draft = draft.clone();
    draft.actions.values_mut().filter_map(|action| action.performer.as_mut()).for_each(redact);
    draft
}

fn redact(performer: &mut Performer) {
    let Performer::Call(call) = performer else { return };
    let Ok(mut said) = call.decode::<Value>() else { return };
    if let Some(url) = said.get_mut("http").and_then(|http| http.get_mut("url"))
        && let Some(masked) = url.as_str().map(masked_url)
    {
        *url = masked.into();
    }
    let headers =
        said.get_mut("http").and_then(|http| http.get_mut("headers")).and_then(Value::as_object_mut);
    for value in headers.into_iter().flat_map(|headers| headers.values_mut()) {
        *value = HIDDEN.into();
    }
    if let Ok(redacted) = Payload::encode(&said) {
        *call = redacted;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Declaration, Format};
    use super::*;

    #[test]
    fn what_services_are_called_with_is_hidden_and_everything_else_is_shown() {
        let written = r#"{"name": "order", "steps": [{
            "id": "pay",
            "action": {"http": {"url": "http://pay/charge?token=3", "headers": {"Authorization": "Bearer 1"}}},
            "compensate": {"http": {"url": "http://pay/refund", "headers": {"X-Key": "2"}}}
        }, {"id": "pack", "action": {"worker": {"queue": "parcels"}}}]}"#;
        let draft = Declaration::read(written.as_bytes(), Format::Json).unwrap();
        let mut expected = Declaration::show(&draft);
        let shown = Declaration::show(&without_secrets(&draft));
        expected["steps"][0]["action"]["http"]["headers"]["Authorization"] = HIDDEN.into();
        expected["steps"][0]["compensate"]["http"]["headers"]["X-Key"] = HIDDEN.into();
        expected["steps"][0]["action"]["http"]["url"] = "http://pay/charge?token=***".into();
        assert_eq!(shown, expected);
    }
}
