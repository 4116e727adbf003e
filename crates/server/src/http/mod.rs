//! HTTP below the routes: connections with limits, and what a request is read with.

mod accept;
mod activity;
mod answer;
mod body;
mod bounded;
mod content_type;
mod harden;
mod header;
mod id;
mod long_answer;
mod query;
mod socket;
mod version;

pub(crate) use accept::{Acceptor, Peer};
pub(crate) use answer::{json, located};
pub(crate) use body::{Json, JsonOrNothing, PartialJson, read as read_body};
pub(crate) use bounded::{Probes, bounded, reports_on_the_database};
pub(crate) use content_type::content_type;
pub(crate) use harden::harden;
pub(crate) use header::idempotency_key;
pub(crate) use id::{
    AlertInPath, DeadLetterInPath, DeliveryInPath, EventInPath, JobInPath, LifecycleInPath, MachineInPath,
    MessageInPath, NameInPath, OrderInPath, OutcomeInPath, ParkedInPath, SagaAndStep, SagaInPath, SiteInPath,
    SubscriptionInPath,
};
pub(crate) use query::{Query, bad as bad_query};
