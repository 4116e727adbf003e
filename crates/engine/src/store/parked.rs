//! Items that the database rejected, parked so that their batches go on without them.

use std::fmt::Display;

use async_trait::async_trait;
use backstitch_kernel::Timestamp;

use super::isolation::PickedBatch;
use super::sealed::Sealed;
use super::{Error, Store};

/// Items that the database rejected and that their batches skip for a while.
#[async_trait]
pub trait ParkedStore: Sealed {
    /// Parks items of an area that the database rejected. Their batches skip them, longer after each rejection.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn park(&self, area: &str, rejected: &[Rejection]) -> Result<(), Error>;

    /// Up to `limit` of these items that are parked, by area and item.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list_parked(&self, filter: &ParkedFilter, limit: usize) -> Result<Vec<ParkedItem>, Error>;

    /// Up to `limit` parked items of this area, or of all areas, longest parked first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn parked(&self, area: Option<&str>, limit: usize) -> Result<Vec<ParkedItem>, Error>;

    /// Makes their next batch retry those of these items that are parked, and returns these. An item that is retried already
    /// is not parked any more.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn retry_parked(&self, filter: &ParkedFilter) -> Result<Vec<ParkedItem>, Error>;
}

/// Ends of sends that are recorded, and messages whose sender is gone.
pub const OUTBOX: &str = "outbox";
/// Sagas that are taken over or taken up.
pub const ADOPTION: &str = "adoption";
/// Jobs that are leased, reported about, or whose lease is over.
pub const JOBS: &str = "jobs";
/// Sagas that are old enough to be removed.
pub const SAGA_RETENTION: &str = "saga_retention";
/// Messages that are old enough to be removed.
pub const MESSAGE_RETENTION: &str = "message_retention";
/// Idempotency keys that are old enough to be removed.
pub const KEY_RETENTION: &str = "key_retention";

/// So many parked items of an area are passed over by name; retention reads them into memory.
pub const READ_AT_ONCE: usize = 10_000;

/// An item that its batch passes over until [`Self::retry_at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedItem {
    /// The batch that was rejected because of it, as in [`OUTBOX`].
    pub area: String,
    /// The item's number or name in that area.
    pub item: String,
    /// What the database said.
    pub reason: String,
    /// How often it was rejected.
    pub attempts: u32,
    /// When it was rejected last.
    pub parked_at: Timestamp,
    /// When it is tried again.
    pub retry_at: Timestamp,
}

/// Which parked items are meant, to list or to retry; by default all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedFilter {
    /// Those of this area.
    pub area: Option<String>,
    /// The one of this number or name, in any area.
    pub item: Option<String>,
    /// Those whose reason contains this text, in any case.
    pub reason: Option<String>,
    /// Those that were rejected then or later.
    pub since: Option<Timestamp>,
    /// Those that are tried again before this moment.
    pub retry_before: Option<Timestamp>,
    /// Those behind this area and item, in the order of the list.
    pub after: Option<(String, String)>,
}

impl ParkedFilter {
    /// Those of an area.
    #[must_use]
    pub fn of_area(area: &str) -> Self {
        Self { area: Some(area.to_owned()), ..Self::default() }
    }

    /// The one of this number or name in an area.
    #[must_use]
    pub fn one(area: &str, item: &str) -> Self {
        Self { item: Some(item.to_owned()), ..Self::of_area(area) }
    }
}

/// An item and what the database said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The item's number or name in its area.
    pub item: String,
    /// What the database said.
    pub reason: String,
}

/// Parks these, and says so.
///
/// # Errors
/// When the store cannot be written. The items are then met again, and rejected again.
pub async fn park<T: Display, E: Display>(
    store: &dyn Store,
    area: &'static str,
    rejected: &[(T, E)],
) -> Result<(), Error> {
    if rejected.is_empty() {
        return Ok(());
    }
    store.park(area, &rejections(area, rejected)).await
}

/// Parks one.
///
/// # Errors
/// The same.
pub async fn park_item<T: Display>(
    store: &dyn Store,
    area: &'static str,
    item: T,
    reason: String,
) -> Result<(), Error> {
    park(store, area, &[(item, reason)]).await
}

/// What is to be parked, told in the log.
pub(super) fn rejections<T: Display, E: Display>(area: &'static str, rejected: &[(T, E)]) -> Vec<Rejection> {
    let rejection = |(item, error): &(T, E)| {
        tracing::error!(area, %item, %error, "item rejected by the database; parked and tried again later");
        Rejection { item: item.to_string(), reason: error.to_string() }
    };
    rejected.iter().map(rejection).collect()
}

/// What a batch claimed, also if the rest of it was not written. A claim that is dropped here would wait until its lease
/// expires, or until the next start.
///
/// # Errors
/// When nothing was claimed, for a reason that is no item's.
pub fn claimed<T, R>(area: &'static str, batch: PickedBatch<R, Error>) -> Result<Vec<T>, Error>
where
    R: IntoIterator<Item = T>,
{
    let PickedBatch { written, failed, .. } = batch;
    let claimed: Vec<T> = written.into_iter().flatten().collect();
    match failed {
        Some(error) if claimed.is_empty() => Err(error),
        Some(error) => {
            tracing::warn!(area, %error, "the rest of a batch was not written");
            Ok(claimed)
        }
        None => Ok(claimed),
    }
}

impl<R> PickedBatch<R, Error> {
    /// What the writes gave.
    ///
    /// # Errors
    /// When the rest was not written.
    pub fn whole(self) -> Result<Vec<R>, Error> {
        self.failed.map_or(Ok(self.written), Err)
    }
}
