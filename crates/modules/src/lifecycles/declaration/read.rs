//! From a tree to a draft.

use std::collections::BTreeMap;

use backstitch::kernel::lifecycle::draft::{Allowed, MAX_EDGES, MAX_ERROR_KINDS, MAX_STATES};
use backstitch::kernel::lifecycle::{Draft, DraftAction};
use backstitch::kernel::saga::draft::{DEFAULT_STEP_TIMEOUT, default_retry};
use backstitch::{Performer, Problem, Problems};
use backstitch_api::validate::{Node, Object, ValidationErrors};
use serde_json::Value;

use super::mend;
use crate::declaration::read::{ROOT, performer, queue_timeout, text, timing};

const MACHINE: [&str; 13] = [
    "name",
    "title",
    "subject",
    "initial",
    "states",
    "terminal",
    "pause",
    "pause_expires",
    "edges",
    "can_fail",
    "error_kinds",
    "actions",
    "stuck_after",
];
const ACTION: [&str; 6] = ["http", "worker", "next", "timeout", "queue_timeout", "retry"];

/// The most states that anything can be said of: `failed` is there without being counted.
pub const MAX_NAMED: usize = MAX_STATES + 1;
/// The most answers an action can have: an error of each kind, one of no kind, and `ok`.
pub const MAX_ANSWERS: usize = MAX_ERROR_KINDS + 2;

/// Reads a machine and checks it as a whole.
pub(super) fn draft(tree: &Value) -> Result<Draft, Problems> {
    let document = tree.to_string();
    let errors = ValidationErrors::of(ROOT);
    let fields = Node::root(&document, &errors).object(&MACHINE);
    let draft = fields.as_ref().map(machine);
    if let (Some(draft), Some(fields)) = (&draft, &fields) {
        errors.add_unless_known(Problems(senseless(draft, fields, &errors)));
    }
    errors.or_else(draft)
}

/// What makes no sense, as far as it was read.
fn senseless(draft: &Draft, fields: &Object<'_>, errors: &ValidationErrors) -> Vec<Problem> {
    if errors.is_empty() {
        return draft.clone().check().err().map(|Problems(found)| found).unwrap_or_default();
    }
    let is_misnamed = fields.entries().any(|(name, _)| !MACHINE.contains(&name));
    mend::senseless(draft, |place| {
        // What stands under a wrong name may be what is missing here.
        let may_be_misnamed = is_misnamed && MACHINE.contains(&place) && !fields.has(place);
        may_be_misnamed || errors.are_within(place)
    })
}

fn machine(fields: &Object<'_>) -> Draft {
    let named = |field: Option<Node<'_>>| field.as_ref().map(name).unwrap_or_default();
    let listed = |field: Option<Node<'_>>, most| field.map(|field| names(&field, most)).unwrap_or_default();
    let mut draft = Draft::new(named(fields.required("name")), "");
    draft.title = text(fields, "title");
    draft.subject = text(fields, "subject");
    draft.initial = named(fields.required("initial"));
    draft.states = listed(fields.required("states"), MAX_STATES);
    draft.terminal = listed(fields.get("terminal"), MAX_NAMED);
    draft.pause = by_name(fields.get("pause").as_ref(), MAX_NAMED, |again| Some(name(again)));
    draft.pause_expires = durations(fields.get("pause_expires").as_ref());
    let edges = fields.get("edges").map(|edges| items(&edges, MAX_EDGES)).unwrap_or_default();
    draft.edges = edges.iter().map(|edge| self::edge(edge).unwrap_or_default()).collect();
    draft.can_fail = listed(fields.get("can_fail"), MAX_NAMED);
    draft.error_kinds = listed(fields.get("error_kinds"), MAX_ERROR_KINDS);
    draft.actions = by_name(fields.get("actions").as_ref(), MAX_NAMED, action);
    draft.stuck_after = durations(fields.get("stuck_after").as_ref());
    draft
}

/// How long states may last, by state.
fn durations(node: Option<&Node<'_>>) -> BTreeMap<String, Allowed> {
    by_name(node, MAX_NAMED, |time| time.duration().map(Allowed))
}

/// One that cannot be read keeps its place, so that the others keep theirs.
fn name(node: &Node<'_>) -> String {
    node.text().unwrap_or_default()
}

fn names(node: &Node<'_>, most: usize) -> Vec<String> {
    items(node, most).iter().map(name).collect()
}

fn items<'a>(node: &Node<'a>, most: usize) -> Vec<Node<'a>> {
    let items = node.items().unwrap_or_default();
    if is_within_limit(node, items.len(), most) { items } else { Vec::new() }
}

/// What is far too long is not looked at any further: everything is compared with everything else.
fn is_within_limit(node: &Node<'_>, length: usize, most: usize) -> bool {
    if length > most {
        node.wrong(format!("has {length} entries; the limit is {most}"));
    }
    length <= most
}

fn by_name<T>(
    node: Option<&Node<'_>>,
    most: usize,
    read: impl Fn(&Node<'_>) -> Option<T>,
) -> BTreeMap<String, T> {
    let fields = node.and_then(|node| {
        let fields = node.any_object()?;
        is_within_limit(node, fields.entries().count(), most).then_some(fields)
    });
    let entries = fields.iter().flat_map(Object::entries);
    entries.filter_map(|(name, value)| Some((name.to_owned(), read(&value)?))).collect()
}

fn edge(node: &Node<'_>) -> Option<(String, String)> {
    let ends = node.items()?;
    let [from, to] = &ends[..] else {
        node.wrong(format!("names {} states: write it like [FROM, TO]", ends.len()));
        return None;
    };
    Some((name(from), name(to)))
}

fn action(node: &Node<'_>) -> Option<DraftAction> {
    let fields = node.object(&ACTION)?;
    let performer = acting(node, &fields);
    let next = by_name(fields.required("next").as_ref(), MAX_ANSWERS, |state| Some(name(state)));
    let (timeout, retry) = timing(&fields, DEFAULT_STEP_TIMEOUT, default_retry());
    Some(DraftAction { performer, next, timeout, queue_timeout: queue_timeout(&fields), retry })
}

/// Who acts in a state; nobody where it is only passed.
fn acting(node: &Node<'_>, fields: &Object<'_>) -> Option<Performer> {
    if fields.has("http") || fields.has("worker") {
        return Some(performer(node, fields).unwrap_or_default());
    }
    // Whoever was meant by an unknown field may well take time and have errors.
    if fields.entries().any(|(name, _)| !ACTION.contains(&name)) {
        return Some(Performer::Code);
    }
    for timing in ["timeout", "queue_timeout", "retry"].into_iter().filter_map(|name| fields.get(name)) {
        timing.wrong(
            "nothing is done in this state: say what to call (`http`) or which queue it goes to (`worker`), or leave \
             this out",
        );
    }
    None
}
