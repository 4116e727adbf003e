//! Who may ask for what.

mod access;
mod gate;
pub(crate) mod key;
mod keyring;
pub(crate) mod keys;
mod leave;
mod rates;
mod role;
mod secret;
mod stream_token;

pub(crate) use access::{Access, Rule, Table};
pub(crate) use gate::{Gate, guard};
pub(crate) use keyring::{Holder, Keyring};
pub(crate) use leave::{Leave, Leaves, watch_leaves};
pub(crate) use rates::{Rates, is_limited};
pub(crate) use role::Role;
pub(crate) use secret::{Hasher, random, server_secret};
