//! A machine as its author writes it, for the description. `backstitch_modules::lifecycles::declaration` reads it, and tells
//! every mistake with its place.

use std::borrow::Cow;

use backstitch::kernel::lifecycle::OK;
use backstitch::kernel::lifecycle::draft::{MAX_EDGES, MAX_ERROR_KINDS, MAX_STATES};
use backstitch_modules::lifecycles::declaration::{MAX_ANSWERS, MAX_NAMED};
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::super::performer::{call, collect_performers, worker};
use super::super::retry_policy::ACTION;
use super::super::text::{MachineErrorKind, MachineName, MachineState, MachineSubject, Name};
use backstitch_api::validate::DurationText;
use backstitch_api::validate::schema::{
    Components, by_name, closed, collect, described, named, of, set_of, title,
};

const EDGE: &str = "MachineEdge";
const MACHINE_ACTION: &str = "MachineAction";
const NEXT: &str = "MachineNext";

/// A machine.
pub(in crate::routes) struct Written;

impl PartialSchema for Written {
    fn schema() -> RefOr<Schema> {
        let states = set_of::<MachineState>("All states; `failed` need not be named.").min_items(Some(1));
        let states = states.max_items(Some(MAX_STATES));
        let edges = ArrayBuilder::new().items(named(EDGE)).unique_items(true).max_items(Some(MAX_EDGES));
        let edges = edges.description(Some("What may follow what: from where, to where."));
        let kinds =
            set_of::<MachineErrorKind>("What errors are told apart by; `internal` need not be named.");
        let some_states = |about| set_of::<MachineState>(about).max_items(Some(MAX_NAMED));
        let by_state = |about, values| by_name::<MachineState>(about, values, MAX_NAMED);
        let pause = "Those that wait for a start, and where it goes on then.";
        let pause_expires = "How long a pause state may last before its lifecycle is abandoned; one that is not named lasts until a start.";
        let actions = "What is done in a state, and where each answer leads.";
        let stuck_after = "A state that lasts longer than this counts as stuck.";
        closed("States, and what may follow what; `docs/lifecycles.md` says all of it.")
            .property("name", described::<MachineName>("The same as in the address."))
            .property("title", title())
            .property("subject", described::<MachineSubject>("What the topics of its messages begin with; they end in the new state."))
            .property("initial", described::<MachineState>("Where everything begins."))
            .property("states", states)
            .property("terminal", some_states("Those that nothing follows; `failed` is one."))
            .property("pause", by_state(pause, of::<MachineState>()))
            .property("pause_expires", by_state(pause_expires, of::<DurationText>()))
            .property("edges", edges)
            .property("can_fail", some_states("From where `failed` may follow."))
            .property("error_kinds", kinds.max_items(Some(MAX_ERROR_KINDS)))
            .property("actions", by_state(actions, named(MACHINE_ACTION)))
            .property("stuck_after", by_state(stuck_after, of::<DurationText>()))
            .required("name")
            .required("initial")
            .required("states")
            .examples([json!({
                "name": "parcel",
                "initial": "packed",
                "states": ["packed", "sent", "held", "delivered"],
                "terminal": ["delivered"],
                "pause": { "held": "sent" },
                "edges": [["packed", "sent"], ["sent", "held"], ["sent", "delivered"]],
                "can_fail": ["packed", "sent"],
                "error_kinds": ["nobody_home"],
                "actions": { "sent": { "worker": { "queue": "drivers" }, "next": { "ok": "delivered", "nobody_home": "held" } } },
            })])
            .into()
    }
}

impl ToSchema for Written {
    fn name() -> Cow<'static, str> {
        "MachineRequest".into()
    }

    fn schemas(components: &mut Components) {
        let edge = set_of::<MachineState>("From where, to where: two different states.");
        let edge = edge.min_items(Some(2)).max_items(Some(2));
        let actions = OneOfBuilder::new().item(called()).item(worked()).item(passed());
        let actions = actions.description(Some(
            "What is done in a state: a service is called, a worker takes it from a queue, or nothing where the state is only passed.",
        ));
        components.push((EDGE.to_owned(), edge.into()));
        components.push((MACHINE_ACTION.to_owned(), actions.into()));
        components.push((NEXT.to_owned(), next().into()));
        collect_performers(components);
        ACTION.collect(components);
        collect::<DurationText>(components);
        collect::<MachineName>(components);
        collect::<MachineState>(components);
        collect::<MachineErrorKind>(components);
        collect::<MachineSubject>(components);
        collect::<Name>(components);
    }
}

fn called() -> ObjectBuilder {
    closed("A service is called.")
        .property("http", call())
        .property("next", named(NEXT))
        .property("timeout", described::<DurationText>("How long one attempt may take; `60s` unless given."))
        .property("retry", ACTION.reference())
        .required("http")
        .required("next")
}

fn worked() -> ObjectBuilder {
    let timeout = "How long one attempt may take from when the worker leases the job; `60s` unless given.";
    let queue_timeout = "How long an attempt may wait for a worker; without it there is no end.";
    closed("A worker takes it from a queue.")
        .property("worker", worker())
        .property("next", named(NEXT))
        .property("timeout", described::<DurationText>(timeout))
        .property("queue_timeout", described::<DurationText>(queue_timeout))
        .property("retry", ACTION.reference())
        .required("worker")
        .required("next")
        .examples([json!({ "worker": { "queue": "drivers" }, "next": { "ok": "delivered" } })])
}

fn passed() -> ObjectBuilder {
    let next = closed("Where it goes on.").property(OK, of::<MachineState>()).required(OK);
    closed("Nothing is done.").property("next", next).required("next")
}

fn next() -> ObjectBuilder {
    let about =
        "Where each answer leads: `ok`, and kinds of errors; an error that is not named leads to `failed`.";
    by_name::<Name>(about, of::<MachineState>(), MAX_ANSWERS).property(OK, of::<MachineState>()).required(OK)
}
