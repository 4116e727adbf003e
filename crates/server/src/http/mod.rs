//! HTTP below the routes: connections with limits, and what a request is read with.

mod accept;
mod activity;
mod answer;
mod body;
mod depth;
mod id;
mod query;
mod socket;

pub(crate) use accept::{Acceptor, Peer};
pub(crate) use answer::json;
pub(crate) use body::{Json, JsonOrNothing};
pub(crate) use id::{SagaAndStep, SagaInPath};
pub(crate) use query::Query;
