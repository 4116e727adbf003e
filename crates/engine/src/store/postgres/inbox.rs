//! Messages for sagas.

use backstitch_kernel::saga::Status;
use backstitch_kernel::{SagaId, Timestamp};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::session::{Session, change, read};
use super::values::{get, time};
use super::{PostgresStore, listen, sql};
use crate::inbox::{Message, Posted};
use crate::store::nodes::{Epoch, Notice};
use crate::store::{Corrupt, Error, InboxStore};

#[async_trait]
impl InboxStore for PostgresStore {
    async fn post(&self, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
        change!(self.sessions.to_ask(), |session| post(session, saga, message, at))
    }

    async fn mail(&self, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
        read!(self.sessions, |session| mail(session, epoch))
    }

    async fn listen(&self) -> Result<Option<mpsc::Receiver<Notice>>, Error> {
        listen::listen(self.sessions.dialler().clone()).await.map(Some)
    }
}

async fn post(session: &Session, saga: SagaId, message: &Message, at: Timestamp) -> Result<Posted, Error> {
    let body = serde_json::to_string(message).map_err(|why| Error::Refused(why.to_string()))?;
    let rows = session.query(sql!(inbox::post), &[&saga.0, &time(at), &body]).await?;
    let Some(row) = rows.first() else {
        return Ok(Posted::Unknown);
    };
    let name: &str = get(row, "status")?;
    let unknown = || Corrupt::of("sagas", "status", saga, &format!("`{name}` is no status"));
    let status = Status::parse(name).ok_or_else(unknown)?;
    Ok(if status.is_terminal() { Posted::Ended(status) } else { Posted::Accepted })
}

async fn mail(session: &Session, epoch: Epoch) -> Result<Vec<(SagaId, u64)>, Error> {
    let rows = session.query(sql!(inbox::newest), &[&epoch]).await?;
    rows.iter()
        .map(|row| Ok((SagaId(get(row, "saga_id")?), u64::from(get::<i32>(row, "newest")?.unsigned_abs()))))
        .collect()
}
