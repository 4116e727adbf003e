//! A server with sagas to call, and clients to call it with.

mod client;
mod program;
mod sagas;
mod server;
mod sse;

pub(crate) use client::{Answer, Client};
pub(crate) use program::{Program, SECRET, create_key, output_of};
pub(crate) use server::{Running, within};
pub(crate) use sse::EventStream;
