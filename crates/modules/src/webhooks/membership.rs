//! The rows of the nodes that send webhooks, and what outside workers hold.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstitch::delivery::membership::{self, MembershipSettings, MembershipStore, OutsideLeases};
use backstitch::store;
use tokio_postgres::types::ToSql;

use super::base::{Base, Part, Side};
use super::jobs::Jobs;
use crate::question::{Record, Statement, answered, column_unreadable};

/// A database that does not answer holds up claims, or a shutdown, for no longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

const WITH_WORKERS: Statement = Statement {
    sqlite: include_str!("../../queries/sqlite/webhooks/with_workers.sql"),
    postgres: include_str!("../../queries/postgres/webhooks/with_workers.sql"),
};

/// The nodes that send webhooks, as one of them sees them.
pub type Membership = membership::Membership<Senders>;

/// The table of the nodes that send webhooks.
pub struct Senders(Arc<Base>);

/// One more node that sends deliveries of these jobs.
#[must_use]
pub fn membership(jobs: &Jobs, settings: MembershipSettings) -> Membership {
    let base = jobs.base.clone();
    let id = base.ids.next(base.now()).to_string();
    Membership::new(Senders(base), id, settings)
}

/// The age in milliseconds from which a row does not count.
pub(super) fn millis(gone_after: Duration) -> i64 {
    i64::try_from(gone_after.as_millis()).unwrap_or(i64::MAX)
}

impl MembershipStore for Senders {
    type Key = i64;
    type Error = store::Error;

    fn is_shared(&self) -> bool {
        matches!(self.0.side(Part::Worker), Ok(Side::Postgres(_)))
    }

    async fn heartbeat(&self, id: &str, gone_after: Duration) -> Result<BTreeSet<String>, store::Error> {
        let Side::Postgres(server) = self.0.side(Part::Worker)? else { return Ok(BTreeSet::new()) };
        let values: [&(dyn ToSql + Sync); 3] = [&id, &self.0.node, &millis(gone_after)];
        let rows = server.query_within(ANSWERED_WITHIN, include_str!("postgres/beat.sql"), &values).await?;
        let ids = rows.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>();
        ids.map_err(|why| column_unreadable(&why))
    }

    async fn leave(&self, id: &str) -> Result<(), store::Error> {
        let Side::Postgres(server) = self.0.side(Part::Worker)? else { return Ok(()) };
        let sql = include_str!("postgres/leave.sql");
        server.query_within(ANSWERED_WITHIN, sql, &[&id]).await.map(drop)
    }

    async fn outside_leases(&self, id: &str) -> Result<OutsideLeases<i64>, store::Error> {
        let rows = match self.0.side(Part::Worker)? {
            Side::Sqlite(_) => self.0.read(Part::Worker, WITH_WORKERS, vec![id.into()]).await?,
            Side::Postgres(server) => {
                answered(&server.query_within(ANSWERED_WITHIN, WITH_WORKERS.postgres, &[]).await?)?
            }
        };
        count(&rows)
    }

    fn wake(&self) {
        self.0.work_soon();
    }
}

fn count(rows: &[Record]) -> Result<OutsideLeases<i64>, store::Error> {
    let mut leases = OutsideLeases::new();
    for row in rows {
        let of_endpoint: &mut Vec<_> = leases.entry(row.integer(0)?).or_default();
        of_endpoint.push((row.text(1)?, usize::try_from(row.integer(2)?).unwrap_or(usize::MAX)));
    }
    Ok(leases)
}
