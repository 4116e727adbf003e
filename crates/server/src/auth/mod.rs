//! Who may ask for what.

mod access;
mod ended;
mod gate;
pub(crate) mod key;
mod key_cache;
mod keyring;
pub(crate) mod keys;
mod leave;
mod rates;
mod role;
mod secret;
mod session;
mod signed;
mod stream_token;

pub(crate) use access::{Access, Rule, Table};
pub(crate) use gate::{Gate, forbidden, guard};
pub(crate) use keyring::{Holder, Keyring, Keys};
pub(crate) use leave::{Leave, Leaves, Right, watch_leaves};
pub(crate) use rates::{Rates, Who, is_limited};
pub use role::Role;
pub(crate) use secret::{Hasher, random, server_secret};
pub(crate) use session::{LIFETIME, Session, is_open_form_token, open_form_token};
pub(crate) use signed::{check_note, signed};
