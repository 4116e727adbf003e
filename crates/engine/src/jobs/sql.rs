//! Statements on jobs that products extend, in both dialects. A product runs those that read as one of its parts, under that
//! part's role.

use crate::statement;
use crate::store::sql::Statement;

/// What a product adds to a statement on jobs, so that its rows are read or written together with them. Each part is text of
/// the statement's dialect; its own values are numbered after the statement's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extension<'a> {
    /// `and …`: which jobs are meant.
    pub condition: &'a str,
    /// `, name as (…)`: what else happens in the same statement.
    pub then: &'a str,
    /// `, column …`: what else is returned.
    pub columns: &'a str,
    /// `join …`: where these columns come from.
    pub joins: &'a str,
}

impl Extension<'_> {
    /// The statement with this in the places that are marked for it.
    #[must_use]
    pub fn apply(&self, statement: &str) -> String {
        statement
            .replace("/*condition*/", self.condition)
            .replace("/*then*/", self.then)
            .replace("/*columns*/", self.columns)
            .replace("/*joins*/", self.joins)
    }
}

/// `after, limit, area[, now]`: partitions behind this one in which jobs wait, in their order: `found.partition_id`.
pub const PARTITIONS: Statement = statement!(jobs::partitions);
/// `partitions, area[, now]`: those of these partitions in which jobs wait: `found.partition_id`.
pub const WAITING_PARTITIONS: Statement = statement!(jobs::waiting_partitions);
/// `partitions, most`: how many jobs wait in each of these partitions, counted up to a limit, and since when the oldest does.
pub const WAITING: Statement = statement!(jobs::backlogs);
/// `jobs`: number, token, status, last error, item, partition and version of these jobs of items: `job`.
pub const LEASES: Statement = statement!(jobs::leases);
/// How many jobs outside workers have, by partition and by the node that leased them out.
pub const LEASE_HOLDERS: Statement = statement!(jobs::lease_holders);
/// `limit, area[, now]`: results that their product has not consumed, oldest job first: `result`.
pub const RESULTS: Statement = statement!(jobs::results);
/// How many jobs of sagas and lifecycles wait and are leased, by queue.
pub const QUEUE_DEPTHS: Statement = statement!(jobs::queue_depths);
