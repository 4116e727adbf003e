//! A definition as its author writes it, for the description. `backstitch_modules::declaration` reads it, and tells every
//! mistake with its place.

use std::borrow::Cow;

use backstitch::kernel::saga::draft::MAX_STEPS;
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, RefBuilder, Schema, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use super::super::performer::{call, collect_performers, worker};
use super::super::retry_policy::{ACTION, COMPENSATION, RetryPolicies, WORKER_ACTION, WORKER_COMPENSATION};
use super::super::text::Name;
use backstitch_api::validate::DurationText;
use backstitch_api::validate::schema::{
    Components, closed, collect, described, named, set_of, title, whole_number,
};

const STEP: &str = "DefinitionStep";
const CALLED_STEP: &str = "DefinitionCalledStep";
const WORKER_STEP: &str = "DefinitionWorkerStep";
const COMPENSATE: &str = "DefinitionCompensation";

/// A definition.
pub(in crate::routes) struct Written;

impl PartialSchema for Written {
    fn schema() -> RefOr<Schema> {
        let goes_on = "Whether the other compensations still run after one has failed for good.";
        let at_once = "How many compensations may be in progress at once; 1 unless given.";
        let metadata = "Whatever its author wants to keep with it, up to 16 KiB.";
        let steps = ArrayBuilder::new().items(named(STEP)).min_items(Some(1)).max_items(Some(MAX_STEPS));
        let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        closed("What a saga does; `docs/definitions.md` says all of it.")
            .property("name", described::<Name>("What sagas are started by; the same as in the address."))
            .property("title", title())
            .property("metadata", any.description(Some(metadata)))
            .property("continue_on_compensation_failure", flag(goes_on))
            .property("compensation_concurrency", whole_number(at_once, 1, u32::MAX))
            .property("steps", steps)
            .required("name")
            .required("steps")
            .examples([json!({
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
            })])
            .into()
    }
}

impl ToSchema for Written {
    fn name() -> Cow<'static, str> {
        "DefinitionRequest".into()
    }

    fn schemas(components: &mut Components) {
        let steps = OneOfBuilder::new().item(named(CALLED_STEP)).item(named(WORKER_STEP));
        let steps =
            steps.description(Some("A step: a service is called, or a worker takes it from a queue."));
        let undo = OneOfBuilder::new().item(called_compensation()).item(worker_compensation());
        let undo = undo.description(Some("How a step is undone: a service is called, or a worker does it."));
        components.push((STEP.to_owned(), steps.into()));
        components.push((CALLED_STEP.to_owned(), called_step().into()));
        components.push((WORKER_STEP.to_owned(), worker_step().into()));
        components.push((COMPENSATE.to_owned(), undo.into()));
        collect_performers(components);
        for policies in [ACTION, WORKER_ACTION, COMPENSATION, WORKER_COMPENSATION] {
            policies.collect(components);
        }
        collect::<DurationText>(components);
        collect::<Name>(components);
    }
}

fn called_step() -> ObjectBuilder {
    let at_once = "How many attempts of it a server runs at a time, over all sagas; no limit unless given.";
    let action = closed("The service that performs it.").property("http", call()).required("http");
    step("A step that a service performs.", action, &ACTION)
        .property("timeout", described::<DurationText>("How long one attempt may take; `60s` unless given."))
        .property("concurrency", whole_number(at_once, 1, u32::MAX))
}

fn worker_step() -> ObjectBuilder {
    let timeout = "How long one attempt may take from when the worker leases the job; `60s` unless given.";
    let action =
        closed("The queue that a worker takes it from.").property("worker", worker()).required("worker");
    step("A step that a worker performs.", action, &WORKER_ACTION)
        .property("timeout", described::<DurationText>(timeout))
        .property("queue_timeout", queue_timeout())
        .examples([
            json!({ "id": "inventory", "action": { "worker": { "queue": "inventory" } }, "timeout": "5m" }),
        ])
}

/// What steps of both kinds say.
fn step(about: &str, action: ObjectBuilder, policies: &RetryPolicies) -> ObjectBuilder {
    let before =
        "The steps that must have succeeded before: the one before it unless given, none when empty.";
    closed(about)
        .property("id", described::<Name>("Its name among the steps."))
        .property("title", title())
        .property("depends_on", set_of::<Name>(before))
        .property("action", action)
        .property("compensate", named(COMPENSATE))
        .property("retry", policies.reference())
        .required("id")
        .required("action")
}

fn called_compensation() -> ObjectBuilder {
    closed("A service undoes it.")
        .property("http", call())
        .property("timeout", described::<DurationText>("How long one attempt may take; `120s` unless given."))
        .property("retry", COMPENSATION.reference())
        .required("http")
        .examples([json!({ "http": { "url": "http://127.0.0.1:7431/payment/refund" }, "timeout": "10s" })])
}

fn worker_compensation() -> ObjectBuilder {
    let timeout = "How long one attempt may take from when the worker leases the job; `120s` unless given.";
    closed("A worker undoes it.")
        .property("worker", worker())
        .property("timeout", described::<DurationText>(timeout))
        .property("queue_timeout", queue_timeout())
        .property("retry", WORKER_COMPENSATION.reference())
        .required("worker")
        .examples([json!({ "worker": { "queue": "inventory-release" }, "timeout": "10s" })])
}

fn queue_timeout() -> RefBuilder {
    described::<DurationText>("How long the job may wait for a worker; without end unless given.")
}

fn flag(about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean).description(Some(about))
}
