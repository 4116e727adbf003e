//! A machine as its author writes it, for the description. `backstitch_modules::lifecycles::declaration` reads it, and tells
//! every mistake with its place.
#![expect(dead_code, reason = "they describe what is read elsewhere")]

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use super::super::definitions::written::{HttpCall, RetryPolicy, Worker};
use super::super::duration::DurationText;

/// States, and what may follow what; `docs/lifecycles.md` says all of it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MachineRequest, example = json!({
    "name": "parcel",
    "initial": "packed",
    "states": ["packed", "sent", "held", "delivered"],
    "terminal": ["delivered"],
    "pause": { "held": "sent" },
    "edges": [["packed", "sent"], ["sent", "held"], ["sent", "delivered"]],
    "can_fail": ["packed", "sent"],
    "error_kinds": ["nobody_home"],
    "actions": { "sent": { "worker": { "queue": "drivers" }, "next": { "ok": "delivered", "nobody_home": "held" } } },
}))]
pub(in crate::routes) struct Written {
    /// The same as in the address.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$", example = "parcel")]
    name: String,
    /// What people read.
    #[schema(value_type = String, required = false, max_length = 512)]
    title: Option<String>,
    /// What the topics of its messages begin with; they end in the new state.
    #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9._-]{1,128}$")]
    subject: Option<String>,
    /// Where everything begins.
    #[schema(example = "packed")]
    initial: String,
    /// All states, each once; `failed` need not be named.
    #[schema(min_items = 1, max_items = 200, example = json!(["packed", "sent", "held", "delivered"]))]
    states: Vec<StateName>,
    /// Those that nothing follows; `failed` is one.
    #[serde(default)]
    #[schema(example = json!(["delivered"]))]
    terminal: Vec<String>,
    /// Those that wait for a start, and where it goes on then.
    #[serde(default)]
    #[schema(example = json!({ "held": "sent" }))]
    pause: BTreeMap<String, String>,
    /// How long a pause state may last before its lifecycle is abandoned; one that is not named lasts until a start.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, DurationText>, example = json!({ "held": "30days" }))]
    pause_expires: BTreeMap<String, String>,
    /// What may follow what: from where, to where.
    #[serde(default)]
    #[schema(max_items = 2000, example = json!([["packed", "sent"], ["sent", "held"], ["sent", "delivered"]]))]
    edges: Vec<Edge>,
    /// From where `failed` may follow.
    #[serde(default)]
    #[schema(example = json!(["packed", "sent"]))]
    can_fail: Vec<String>,
    /// What errors are told apart by; `internal` need not be named.
    #[serde(default)]
    #[schema(max_items = 100, example = json!(["nobody_home"]))]
    error_kinds: Vec<String>,
    /// What is done in a state, and where each answer leads.
    #[serde(default)]
    #[schema(example = json!({ "sent": { "worker": { "queue": "drivers" }, "next": { "ok": "delivered", "nobody_home": "held" } } }))]
    actions: BTreeMap<String, Action>,
    /// A state that lasts longer than this counts as stuck.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, DurationText>, example = json!({ "sent": "1day" }))]
    stuck_after: BTreeMap<String, String>,
}

/// The name of a state.
#[derive(Deserialize, ToSchema)]
#[schema(as = MachineState, pattern = "^[A-Za-z0-9_-]{1,128}$")]
struct StateName(String);

/// From where, to where.
#[derive(Deserialize, ToSchema)]
#[schema(as = MachineEdge, min_items = 2, max_items = 2)]
struct Edge(Vec<String>);

/// What is done in a state: a service that is called, or a worker that takes it from a queue; nothing where it is only
/// passed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MachineAction, example = json!({ "worker": { "queue": "drivers" }, "next": { "ok": "delivered" } }))]
struct Action {
    #[schema(value_type = HttpCall, required = false)]
    http: Option<HttpCall>,
    #[schema(value_type = Worker, required = false)]
    worker: Option<Worker>,
    /// Where each answer leads: `ok`, and kinds of errors; an error that is not named leads to `failed`.
    next: BTreeMap<String, String>,
    /// How long one attempt may take; `60s` unless given. For a worker it begins when the worker leases the job.
    #[schema(value_type = DurationText, required = false)]
    timeout: Option<String>,
    /// How long an attempt may wait for a worker; without it there is no end. Only for workers.
    #[schema(value_type = DurationText, required = false)]
    queue_timeout: Option<String>,
    #[schema(value_type = RetryPolicy, required = false)]
    retry: Option<RetryPolicy>,
}
