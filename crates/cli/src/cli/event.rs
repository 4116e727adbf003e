//! Events of sagas as text, and the resulting status of the steps.

use serde::Deserialize;
use serde_json::Value;

use super::table::Column;
use super::text::shown;

/// The columns of a saga's log.
pub(crate) const LOG: [Column; 5] = [
    Column::id("SEQ", "seq"),
    Column::time("WHEN", "at"),
    Column::text("EVENT", "type"),
    Column::text("STEP", "step"),
    Column::made("WHAT", what_of),
];

/// The displayed parts of an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    r#type: String,
    step: Option<String>,
    attempt: Option<u64>,
    max_attempts: Option<u64>,
    definition: Option<String>,
    version: Option<u64>,
    failed_step: Option<String>,
    error: Option<Why>,
    in_doubt: Option<bool>,
    unparsed: bool,
    phase: Option<String>,
    queue: Option<String>,
    action: Option<String>,
    note: Option<String>,
    node: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Why {
    message: String,
}

fn what_of(event: &Value) -> String {
    Event::deserialize(event).map(|event| event.what()).unwrap_or_default()
}

impl Event {
    /// The event on one line.
    pub(crate) fn line(&self) -> String {
        let parts = [Some(self.r#type.clone()), self.step.clone(), Some(self.what())];
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        shown(&parts.collect::<Vec<_>>().join("  "))
    }

    /// Details besides type and step.
    fn what(&self) -> String {
        let error = self.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
        let attempt = self.attempt.unwrap_or(1);
        match self.r#type.as_str() {
            "saga.started" => match (&self.definition, self.version) {
                (Some(definition), Some(version)) => format!("{definition} v{version}"),
                _ => String::new(),
            },
            "step.started" | "step.compensating" => match &self.queue {
                Some(queue) => format!("attempt {attempt}, for a worker of {queue}"),
                None => format!("attempt {attempt}"),
            },
            "step.leased" => format!("attempt {attempt}, leased by a worker"),
            "step.retry" => {
                let undo = if self.phase.as_deref() == Some("undo") { "of the undoing " } else { "" };
                let of = self.max_attempts.map(|of| format!(" of {of}")).unwrap_or_default();
                format!("attempt {attempt}{of} {undo}failed: {error}; it is tried again")
            }
            "step.succeeded" if self.unparsed => "the response was not JSON".to_owned(),
            "step.failed" if self.in_doubt == Some(true) => format!("{error} (unknown outcome)"),
            "saga.compensating" => match &self.failed_step {
                Some(step) => format!("{step} failed: {error}"),
                None => error.to_owned(),
            },
            "step.resolved" => {
                let action = self.action.as_deref().unwrap_or_default();
                format!("{action}: {}", self.note.as_deref().unwrap_or_default())
            }
            "saga.paused" | "saga.resumed" => self.note.clone().unwrap_or_default(),
            "saga.adopted" => {
                self.node.as_ref().map(|node| format!("taken up by {node}")).unwrap_or_default()
            }
            _ => error.to_owned(),
        }
    }
}

/// The status of a saga's steps, from its events.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) steps: Vec<StepCourse>,
    /// The saga's status in the API.
    pub(crate) status: &'static str,
    /// Why it is rolled back, or its rollback failed.
    pub(crate) why: Option<String>,
}

/// A step's status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepCourse {
    pub(crate) id: String,
    /// Its status in the API.
    pub(crate) status: &'static str,
    pub(crate) what: String,
}

impl Course {
    /// The state before the first event.
    pub(crate) fn of(saga: &Value) -> Self {
        let steps = saga["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ids = steps.iter().filter_map(|step| step["id"].as_str());
        let step = |id: &str| StepCourse { id: shown(id), status: "pending", what: String::new() };
        Self { steps: ids.map(step).collect(), status: "pending", why: None }
    }

    /// Applies an event. Returns the position of its step.
    pub(crate) fn take(&mut self, event: &Event) -> Option<usize> {
        let what = shown(&event.what());
        if let Some(status) = status_after(&event.r#type) {
            self.status = status;
        }
        if matches!(event.r#type.as_str(), "saga.compensating" | "saga.failed") {
            self.why = Some(what.clone());
        }
        let named = shown(event.step.as_deref()?);
        let place = self.steps.iter().position(|step| step.id == named)?;
        let step = &mut self.steps[place];
        step.status = match event.r#type.as_str() {
            "step.started" if event.queue.is_some() => "waiting",
            "step.leased" if event.phase.as_deref() == Some("do") => "running",
            "step.started" => "running",
            "step.succeeded" => "succeeded",
            "step.failed" if event.in_doubt == Some(true) => "in_doubt",
            "step.timed_out" => "in_doubt",
            "step.failed" => "failed",
            "step.compensating" => "compensating",
            "step.compensated" => "compensated",
            "step.compensation_failed" => "compensation_failed",
            "step.resolved" => match event.action.as_deref() {
                Some("skip") => "skipped",
                Some("done") => "compensated",
                _ => "compensating",
            },
            _ => step.status,
        };
        step.what = what;
        Some(place)
    }

    /// The number of steps that are done and not undone.
    pub(crate) fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.status == "succeeded").count()
    }
}

fn status_after(event: &str) -> Option<&'static str> {
    Some(match event {
        "saga.started" => "running",
        "saga.succeeded" => "succeeded",
        "saga.compensating" | "step.resolved" => "compensating",
        "saga.compensated" => "compensated",
        "saga.failed" => "failed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(value: Value) -> Event {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn steps_go_forward_and_back_as_their_events_tell() {
        let mut course = Course::of(&json!({"steps": [{"id": "a"}, {"id": "b"}]}));
        let mut after = |value| {
            course.take(&event(value));
            let steps: Vec<&str> = course.steps.iter().map(|step| step.status).collect();
            (course.status, steps.join(" "))
        };
        assert_eq!(after(json!({"type": "saga.started"})), ("running", "pending pending".to_owned()));
        after(json!({"type": "step.started", "step": "a", "attempt": 1}));
        assert_eq!(after(json!({"type": "step.succeeded", "step": "a"})).1, "succeeded pending");
        after(json!({"type": "step.started", "step": "b"}));
        let refused =
            json!({"type": "step.failed", "step": "b", "in_doubt": false, "error": {"message": "no"}});
        assert_eq!(after(refused).1, "succeeded failed");
        let back = json!({"type": "saga.compensating", "failed_step": "b", "error": {"message": "no"}});
        assert_eq!(after(back).0, "compensating");
        assert_eq!(after(json!({"type": "step.compensating", "step": "a"})).1, "compensating failed");
        after(json!({"type": "step.compensated", "step": "a"}));
        assert_eq!(
            after(json!({"type": "saga.compensated"})),
            ("compensated", "compensated failed".to_owned())
        );
        assert_eq!(course.why.as_deref(), Some("b failed: no"));
    }

    #[test]
    fn event_fits_on_one_line_of_plain_text() {
        let retry = json!({"type": "step.retry", "step": "pay", "attempt": 1, "max_attempts": 3, "phase": "undo",
            "error": {"message": "\u{1b}[31mgone\n"}});
        assert_eq!(
            event(retry).line(),
            "step.retry  pay  attempt 1 of 3 of the undoing failed: \\u{1b}[31mgone\\n; it is tried again"
        );
    }

    #[test]
    fn unparsed_result_is_mentioned() {
        let unparsed = json!({"type": "step.succeeded", "step": "pay", "result": "OK", "unparsed": true});
        assert_eq!(event(unparsed).line(), "step.succeeded  pay  the response was not JSON");
    }

    #[test]
    fn an_event_of_a_kind_that_is_not_known_yet_is_shown_too() {
        let mut course = Course::of(&json!({"steps": [{"id": "a"}]}));
        let new = event(json!({"seq": 9, "type": "step.pondered", "step": "a"}));
        assert_eq!(course.take(&new), Some(0));
        assert_eq!(course.steps[0].status, "pending");
        assert_eq!(new.line(), "step.pondered  a");
    }
}
