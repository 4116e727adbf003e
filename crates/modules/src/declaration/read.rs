//! From a tree to a draft.

use std::time::Duration;

use backstitch::kernel::saga::draft::{
    DEFAULT_COMPENSATION_TIMEOUT, DEFAULT_STEP_TIMEOUT, DraftCompensation, default_compensation_retry,
    default_retry,
};
use backstitch::{Draft, DraftStep, Payload, Performer, Problems, Retry};
use backstitch_api::validate::{Node, Object, ValidationErrors};
use serde_json::{Value, json};

use super::retry;
use crate::http_call::Target;

/// The path of a declaration as a whole.
pub(crate) const ROOT: &str = "the definition";

const DEFINITION: [&str; 6] =
    ["name", "title", "metadata", "continue_on_compensation_failure", "compensation_concurrency", "steps"];
const STEP: [&str; 9] =
    ["id", "title", "depends_on", "action", "compensate", "timeout", "queue_timeout", "retry", "concurrency"];
const ACTION: [&str; 2] = ["http", "worker"];
const COMPENSATION: [&str; 5] = ["http", "worker", "timeout", "queue_timeout", "retry"];

/// Reads a definition and checks it as a whole.
pub(super) fn draft(tree: &Value) -> Result<Draft, Problems> {
    let document = tree.to_string();
    let errors = ValidationErrors::of(ROOT);
    let draft = definition(&Node::root(&document, &errors));
    if let Some(draft) = &draft
        && let Err(Problems(mut found)) = draft.clone().check()
    {
        // A step whose id cannot be read may be the one that another one names.
        if draft.steps.iter().any(|step| step.id.is_empty()) {
            found.retain(|problem| !problem.place.contains(".depends_on["));
        }
        errors.add_unless_known(Problems(found));
    }
    errors.or_else(draft)
}

fn definition(node: &Node<'_>) -> Option<Draft> {
    let fields = node.object(&DEFINITION)?;
    let name = fields.required("name").and_then(|name| name.text()).unwrap_or_default();
    let mut draft = Draft::new(name);
    draft.title = text(&fields, "title");
    draft.metadata = fields.get("metadata").and_then(|metadata| Payload::encode(&metadata.value()).ok());
    if let Some(goes_on) = fields.get("continue_on_compensation_failure") {
        draft.continue_on_compensation_failure = goes_on.flag().unwrap_or_default();
    }
    if let Some(limit) = fields.get("compensation_concurrency") {
        let limit: u32 = limit.number().unwrap_or(1);
        draft.compensation_concurrency = usize::try_from(limit).unwrap_or(usize::MAX);
    }
    let steps = fields.required("steps").and_then(|steps| steps.items()).unwrap_or_default();
    // One that cannot be read keeps its place, so that the others keep theirs.
    draft.steps = steps.iter().map(|step| self::step(step).unwrap_or_else(|| unread(""))).collect();
    Some(draft)
}

fn unread(id: &str) -> DraftStep {
    DraftStep {
        id: id.to_owned(),
        title: None,
        depends_on: Some(Vec::new()),
        action: Performer::Code,
        timeout: DEFAULT_STEP_TIMEOUT,
        queue_timeout: None,
        retry: default_retry(),
        compensate: None,
        concurrency: None,
    }
}

fn step(node: &Node<'_>) -> Option<DraftStep> {
    let fields = node.object(&STEP)?;
    let id = fields.required("id").and_then(|id| id.text()).unwrap_or_default();
    let usual = unread(&id);
    let title = text(&fields, "title");
    let depends_on = fields.get("depends_on").map(|steps| names(&steps));
    let action = action(&fields).unwrap_or_default();
    let (timeout, retry) = timing(&fields, usual.timeout, usual.retry);
    Some(DraftStep {
        title,
        depends_on,
        action,
        timeout,
        queue_timeout: queue_timeout(&fields),
        retry,
        compensate: fields.get("compensate").and_then(|it| compensation(&it)),
        concurrency: fields.get("concurrency").and_then(|it| it.number()),
        id: usual.id,
    })
}

pub(crate) fn text(fields: &Object<'_>, name: &str) -> Option<String> {
    fields.get(name)?.text()
}

fn names(node: &Node<'_>) -> Vec<String> {
    let items = node.items().unwrap_or_default();
    items.iter().filter_map(Node::text).collect()
}

fn action(step: &Object<'_>) -> Option<Performer> {
    let node = step.required("action")?;
    performer(&node, &node.object(&ACTION)?)
}

fn compensation(node: &Node<'_>) -> Option<DraftCompensation> {
    let fields = node.object(&COMPENSATION)?;
    let action = performer(node, &fields).unwrap_or_default();
    let (timeout, retry) = timing(&fields, DEFAULT_COMPENSATION_TIMEOUT, default_compensation_retry());
    Some(DraftCompensation { action, timeout, queue_timeout: queue_timeout(&fields), retry })
}

pub(crate) fn queue_timeout(fields: &Object<'_>) -> Option<Duration> {
    fields.get("queue_timeout").and_then(|it| it.duration())
}

/// How long one attempt may take and how often it is tried again; what is not said is as usual.
pub(crate) fn timing(fields: &Object<'_>, usual_timeout: Duration, usual_policy: Retry) -> (Duration, Retry) {
    let timeout = fields.get("timeout").and_then(|it| it.duration()).unwrap_or(usual_timeout);
    let policy = fields.get("retry").and_then(|it| retry::read(&it, &usual_policy)).unwrap_or(usual_policy);
    (timeout, policy)
}

/// The one who performs it; that nobody does, or that two do, is a mistake.
pub(crate) fn performer(node: &Node<'_>, fields: &Object<'_>) -> Option<Performer> {
    match (fields.get("http"), fields.get("worker")) {
        (Some(http), None) => call(&http).map(Performer::Call),
        (None, Some(worker)) => {
            let queue = worker.object(&["queue"])?.required("queue")?;
            Some(Performer::Worker { queue: queue.text()? })
        }
        (None, None) => {
            node.wrong("says neither what to call (`http`) nor which queue it goes to (`worker`)");
            None
        }
        (Some(_), Some(_)) => {
            node.wrong("says both `http` and `worker`: one of them performs it");
            None
        }
    }
}

/// The call as it is kept: as it was written, its method included.
fn call(node: &Node<'_>) -> Option<Payload> {
    let target = Target::read(node)?;
    let mut http = node.value();
    http["method"] = Value::from(target.method());
    Payload::encode(&json!({ "http": http })).ok()
}
