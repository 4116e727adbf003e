//! Removes messages and keys that are old enough. Nodes that do so at once pass over each other's rows.

use super::session::Session;
use super::sql;
use super::value::{limit, millis};
use crate::outbox::Retention;
use crate::store::Error;
use crate::store::outbox::{Pruned, Status};

pub(super) async fn prune(session: &Session, retention: &Retention, rows: usize) -> Result<Pruned, Error> {
    let rows = limit(rows);
    let mut pruned = Pruned::default();
    for (status, age) in [(Status::Succeeded, retention.sent), (Status::Aborted, retention.aborted)] {
        let values = [&status.as_str() as _, &millis(age) as _, &rows as _];
        pruned.messages += session.query(sql!("prune_messages"), &values).await?.len() as u64;
    }
    let keys = session.query(sql!("prune_keys"), &[&millis(retention.keys), &rows]).await?;
    pruned.keys = keys.len() as u64;
    Ok(pruned)
}
