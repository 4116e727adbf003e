//! Calls over HTTP against services that behave, and services that do not.

mod answers;
mod identity;
mod limits;
mod losses;
mod stage;
