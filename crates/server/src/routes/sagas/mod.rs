//! Starting, finding and reading sagas.

pub(super) mod list;
pub(super) mod log;
pub(super) mod show;
pub(super) mod start;
pub(super) mod view;
pub(super) mod wait;
