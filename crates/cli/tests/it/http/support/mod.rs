//! A server with sagas to call, and clients to call it with.

mod sagas;
mod server;

pub(crate) use crate::support::program::{SECRET, expire_key, output_of};
pub(crate) use crate::support::{Answer, Client, EventStream, Place, Program, create_key, on_both, within};
pub(crate) use server::Running;
