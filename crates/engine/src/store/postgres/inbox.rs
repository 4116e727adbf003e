//! Messages for sagas.

use backstitch_kernel::saga::Status;
use backstitch_kernel::{SagaId, Timestamp};

use tokio_postgres::types::ToSql;

use super::session::Session;
use super::sql;
use super::value::{get, time};
use crate::inbox::{Message, Posted};
use crate::store::nodes::Epoch;
use crate::store::{Corrupt, Error};

pub(super) async fn post(
    session: &Session,
    saga: SagaId,
    message: &Message,
    at: Timestamp,
) -> Result<Posted, Error> {
    let body = serde_json::to_string(message).map_err(|why| Error::Refused(why.to_string()))?;
    let rows = session.query(sql!("post_message"), &[&saga.0, &time(at), &body]).await?;
    let Some(row) = rows.first() else {
        return Ok(Posted::Unknown);
    };
    let name: &str = get(row, "status")?;
    let unknown = || Corrupt::of("sagas", "status", saga, &format!("`{name}` is no status"));
    let status = Status::parse(name).ok_or_else(unknown)?;
    Ok(if status.is_terminal() { Posted::Ended(status) } else { Posted::Accepted })
}

pub(super) async fn let_go(
    session: &Session,
    saga: SagaId,
    epoch: Epoch,
    seq: u64,
    wake_at: Option<Timestamp>,
    inbox_seen: u64,
) -> Result<bool, Error> {
    let number = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    let (seq, seen) = (number(seq), number(inbox_seen));
    let values: [&(dyn ToSql + Sync); 5] = [&saga.0, &epoch, &wake_at.map(time), &seen, &seq];
    Ok(!session.query(sql!("let_go"), &values).await?.is_empty())
}

pub(super) async fn mail(session: &Session, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
    let rows = session.query(sql!("mail"), &[&epoch]).await?;
    rows.iter()
        .map(|row| Ok((SagaId(get(row, "saga_id")?), u64::from(get::<i32>(row, "newest")?.unsigned_abs()))))
        .collect()
}
