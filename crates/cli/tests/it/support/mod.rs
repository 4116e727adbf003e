//! The real binary, and clients to call a server with.

mod client;
mod place;
pub(crate) mod population;
pub(crate) mod program;
mod sse;
mod within;

pub(crate) use client::{Answer, Client};
pub(crate) use place::{Place, fresh_database, on_both};
pub(crate) use program::{Program, create_key};
pub(crate) use sse::EventStream;
pub(crate) use within::within;
