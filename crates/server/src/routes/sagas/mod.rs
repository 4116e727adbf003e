//! Starting, finding and reading sagas.

pub(super) mod event;
pub(super) mod list;
pub(super) mod log;
pub(super) mod show;
pub(super) mod start;
mod view;
mod wait;
