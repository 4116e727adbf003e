//! An engine that removes what is over for long: what goes, what stays, what is kept of it, and what it costs the others.

mod export;
mod removal;
mod room;
pub(crate) mod stage;
