//! Which actions a process takes upon it.

use std::sync::Arc;

use backstitch::SagaId;

use super::standing::Standing;
use crate::question::Record;

/// What is asked for.
#[derive(Clone)]
pub(super) struct Claim {
    /// At most so many.
    pub(super) limit: usize,
    /// What this process has already.
    pub(super) held: Vec<SagaId>,
    /// Of no machine of these.
    pub(super) but: Vec<Arc<str>>,
    /// None but these, if there is such a list.
    pub(super) only: Option<Vec<SagaId>>,
}

/// The rows that can be read. One that cannot keeps no other from being performed.
pub(super) fn readable(rows: &[Record]) -> Vec<Standing> {
    let read = |row: &Record| {
        let standing = Standing::read(row);
        standing.inspect_err(|error| tracing::error!(%error, "a lifecycle cannot be read")).ok()
    };
    rows.iter().filter_map(read).collect()
}
