//! A server with sagas to call, and clients to call it with.

#[path = "../../support/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod everywhere;
mod sagas;
mod server;

pub(crate) use everywhere::program::{SECRET, output_of};
pub(crate) use everywhere::{Answer, Client, EventStream, Place, Program, create_key, on_both, within};
pub(crate) use server::Running;
