//! Sagas that ended long ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Status;

use super::SagaAges;
use super::area::{Area, CandidatePage, Line, Prunable};
use super::lines::{SagaLine, line};
use super::pruning::PAGE;
use super::removal::NotPruned;
use crate::store::isolation::{Isolated, isolate};
use crate::store::parked::SAGA_RETENTION;
use crate::store::retention::Bulk;
use crate::store::{Store, Stored};

/// Sagas that ended with this status.
struct EndedSagas {
    store: Arc<dyn Store>,
    status: Status,
    age: Duration,
}

/// The areas of sagas at these ages.
pub(super) fn areas(store: &Arc<dyn Store>, ages: &SagaAges) -> Vec<Area> {
    let SagaAges { succeeded, compensated, failed } = *ages;
    let statuses =
        [(Status::Succeeded, succeeded), (Status::Compensated, compensated), (Status::Failed, failed)];
    let area = |(status, age): (Status, Option<Duration>)| {
        Some(Area::new(EndedSagas { store: store.clone(), status, age: age? }))
    };
    statuses.into_iter().filter_map(area).collect()
}

impl EndedSagas {
    async fn read(&self, sagas: &[SagaId]) -> Result<Vec<Line<SagaId>>, NotPruned> {
        let keys = self.store.keys_of_sagas(sagas).await?;
        let stored = self.store.load(sagas).await?;
        let line = |saga: &Stored| Ok((saga.summary.id, Ok(line(&SagaLine::of(saga, &keys)?)?)));
        stored.iter().map(line).collect()
    }
}

#[async_trait]
impl Prunable for EndedSagas {
    type Item = SagaId;
    type Place = SagaId;

    const PARKED_IN: &'static str = SAGA_RETENTION;
    const ITEM: &'static str = "saga";
    const ITEMS: &'static str = "sagas";

    fn age(&self) -> Duration {
        self.age
    }

    async fn page(&self, after: Option<SagaId>) -> Result<CandidatePage<SagaId, SagaId>, NotPruned> {
        let page = self.store.old_sagas(self.status, self.age, after, PAGE).await?;
        let bulks: HashMap<SagaId, Bulk> = self.store.bulk_of_sagas(&page.old).await?.into_iter().collect();
        let with_bulk = |saga| (saga, bulks.get(&saga).copied().unwrap_or_default());
        Ok(CandidatePage::before(page.next, page.old.into_iter().map(with_bulk).collect()))
    }

    /// All are read at once; one that cannot be read is found by halves.
    async fn lines(&self, sagas: Vec<SagaId>) -> Result<Vec<Line<SagaId>>, NotPruned> {
        let read = |sagas: Vec<SagaId>| async move { self.read(&sagas).await };
        let Isolated { written, rejected, failed } = isolate(sagas, read).await.into();
        if let Some(error) = failed {
            return Err(error);
        }
        let unreadable = rejected.into_iter().map(|(saga, why)| (saga, Err(why)));
        Ok(written.into_iter().flatten().chain(unreadable).collect())
    }

    async fn remove(&self, sagas: Vec<SagaId>) -> Result<Vec<(&'static str, u64)>, NotPruned> {
        let gone = self.store.remove_sagas(&sagas, self.status, self.age).await?;
        Ok(vec![
            (Self::ITEMS, gone.sagas),
            ("saga_events", gone.events),
            ("keys", gone.keys),
            ("jobs", gone.jobs),
        ])
    }
}
