//! A definition as its author writes it, for the description. `backstitch_modules::declaration` reads it, and tells every
//! mistake with its place.
#![expect(dead_code, reason = "they describe what is read elsewhere")]

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use super::super::duration::DurationText;
use super::super::text::{HeaderMap, HttpUrl};

/// What a saga does; `docs/definitions.md` says all of it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionRequest, example = json!({
    "name": "order-confirmation",
    "steps": [
        {
            "id": "payment",
            "action": { "http": { "url": "http://127.0.0.1:7431/payment/charge" } },
            "compensate": { "http": { "url": "http://127.0.0.1:7431/payment/refund" }, "timeout": "10s" },
            "retry": { "count": 2, "delay": "1s", "backoff": "exponential", "max_delay": "30s" },
        },
        { "id": "inventory", "action": { "worker": { "queue": "inventory" } }, "timeout": "5m" },
    ],
}))]
pub(in crate::routes) struct Written {
    /// What sagas are started by; the same as in the address.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    name: String,
    /// What people read.
    #[schema(value_type = String, required = false, max_length = 512)]
    title: Option<String>,
    /// Whatever its author wants to keep with it.
    #[schema(value_type = Value, required = false)]
    metadata: Option<serde_json::Value>,
    /// Whether the other compensations still run after one has failed for good.
    #[serde(default)]
    continue_on_compensation_failure: bool,
    /// How many compensations may be in progress at once; 1 unless given.
    #[schema(value_type = u32, required = false, minimum = 1)]
    compensation_concurrency: Option<u32>,
    #[schema(min_items = 1, max_items = 500)]
    steps: Vec<WrittenStep>,
}

/// A step of a definition.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionStep)]
struct WrittenStep {
    /// Its name among the steps.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$")]
    id: String,
    /// What people read.
    #[schema(value_type = String, required = false, max_length = 512)]
    title: Option<String>,
    /// The steps that must have succeeded before: the one before it unless given, none when empty.
    #[schema(value_type = Vec<String>, required = false)]
    depends_on: Option<Vec<String>>,
    action: Action,
    #[schema(value_type = Compensation, required = false)]
    compensate: Option<Compensation>,
    /// How long one attempt may take; `60s` unless given. The time of a worker begins when it leases the job.
    #[schema(value_type = DurationText, required = false)]
    timeout: Option<String>,
    /// How long the job may wait for a worker; without end unless given. Only for workers.
    #[schema(value_type = DurationText, required = false)]
    queue_timeout: Option<String>,
    #[schema(value_type = RetryPolicy, required = false)]
    retry: Option<RetryPolicy>,
    /// How many attempts of it a server runs at a time, over all sagas; no limit unless given.
    #[schema(value_type = u32, required = false, minimum = 1)]
    concurrency: Option<u32>,
}

/// Who performs a step: a service that is called, or a worker that takes it from a queue.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionAction, min_properties = 1, max_properties = 1, example = json!({ "worker": { "queue": "inventory" } }))]
struct Action {
    #[schema(value_type = HttpCall, required = false)]
    http: Option<HttpCall>,
    #[schema(value_type = Worker, required = false)]
    worker: Option<Worker>,
}

/// How a step is undone: `http` or `worker`, one of both.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionCompensation, example = json!({ "worker": { "queue": "inventory-release" }, "timeout": "10s" }))]
struct Compensation {
    #[schema(value_type = HttpCall, required = false)]
    http: Option<HttpCall>,
    #[schema(value_type = Worker, required = false)]
    worker: Option<Worker>,
    /// How long one attempt may take; `120s` unless given. The time of a worker begins when it leases the job.
    #[schema(value_type = DurationText, required = false)]
    timeout: Option<String>,
    /// How long the job may wait for a worker; without end unless given. Only for workers.
    #[schema(value_type = DurationText, required = false)]
    queue_timeout: Option<String>,
    #[schema(value_type = RetryPolicy, required = false)]
    retry: Option<RetryPolicy>,
}

/// A call of a service.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionCall)]
pub(in crate::routes) struct HttpCall {
    /// `http` or `https`, with a host, without user, password or fragment.
    #[schema(value_type = HttpUrl, example = "http://127.0.0.1:7431/payment/charge")]
    url: String,
    /// `POST` unless given: `POST`, `PUT`, `PATCH`, `DELETE` or `GET`.
    #[schema(value_type = Method, required = false, example = "POST")]
    method: Option<String>,
    /// More headers.
    #[serde(default)]
    #[schema(value_type = HeaderMap)]
    headers: BTreeMap<String, String>,
}

/// How a service is called.
#[derive(ToSchema)]
#[schema(as = DefinitionMethod, rename_all = "UPPERCASE")]
enum Method {
    Post,
    Put,
    Patch,
    Delete,
    Get,
}

/// A queue that workers outside take work from.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionWorker)]
pub(in crate::routes) struct Worker {
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}$", example = "inventory")]
    queue: String,
}

/// How often something is tried again: attempts after the first, or a policy.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = DefinitionRetry)]
pub(in crate::routes) enum RetryPolicy {
    Count(RetryCount),
    Policy(Policy),
}

/// Attempts after the first.
#[derive(Deserialize, ToSchema)]
#[schema(as = DefinitionRetryCount, maximum = 1000)]
pub(in crate::routes) struct RetryCount(u32);

/// How often something is tried again, and after which waits.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DefinitionRetryPolicy, example = json!({ "count": 2, "delay": "1s", "backoff": "exponential", "max_delay": "30s" }))]
pub(in crate::routes) struct Policy {
    /// Attempts after the first.
    #[schema(value_type = u32, required = false, maximum = 1000)]
    count: Option<u32>,
    /// The wait, or the first wait.
    #[schema(value_type = DurationText, required = false)]
    delay: Option<String>,
    #[schema(value_type = Backoff, required = false)]
    backoff: Option<Backoff>,
    /// The longest wait; for `exponential` only.
    #[schema(value_type = DurationText, required = false)]
    max_delay: Option<String>,
    /// The waits; for `list` only.
    #[schema(value_type = Vec<DurationText>, required = false)]
    delays: Option<Vec<String>>,
    /// Waits are longer by up to this many percent.
    #[schema(value_type = u32, required = false, maximum = 100)]
    jitter: Option<u32>,
    /// All attempts and waits together; no limit unless given.
    #[schema(value_type = DurationText, required = false)]
    within: Option<String>,
}

/// How waits grow.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DefinitionBackoff)]
pub(in crate::routes) enum Backoff {
    Fixed,
    Exponential,
    List,
}
