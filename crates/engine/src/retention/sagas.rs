//! Sagas that ended long ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Status;

use super::lines::{SagaLine, line};
use super::pruning::{BATCH, NotPruned, Pruner, Removal};
use super::walk::Walk;
use super::{SagaAges, fitting};
use crate::store::Store;
use crate::store::isolation::{Isolated, isolate};
use crate::store::parked::SAGA_RETENTION;
use crate::store::retention::Bulk;

/// Those at one kind of end.
struct Ended {
    store: Arc<dyn Store>,
    status: Status,
    age: Duration,
    walk: Walk<SagaId>,
}

/// What removes sagas at these ages.
pub(super) fn pruners(store: &Arc<dyn Store>, ages: &SagaAges) -> Vec<Arc<dyn Pruner>> {
    let SagaAges { succeeded, compensated, failed } = *ages;
    let kinds =
        [(Status::Succeeded, succeeded), (Status::Compensated, compensated), (Status::Failed, failed)];
    let pruner = |(status, age): (Status, Option<Duration>)| {
        let (store, walk) = (store.clone(), Walk::default());
        age.map(|age| Arc::new(Ended { store, status, age, walk }) as Arc<dyn Pruner>)
    };
    kinds.into_iter().filter_map(pruner).collect()
}

impl Ended {
    /// Exports these, but for those that cannot be read, which stay.
    async fn export(&self, old: Vec<SagaId>, removal: &Removal<'_>) -> Result<Vec<SagaId>, NotPruned> {
        let read = |old: Vec<SagaId>| async move { Ok((self.lines(&old).await?, old)) };
        let Isolated { written, rejected, failed } = isolate(old, read).await.into();
        if let Some(error) = failed {
            return Err(error);
        }
        for (saga, why) in rejected {
            removal.passed_over(&format_args!("saga {saga}"), &why);
        }
        let (lines, going): (Vec<Vec<String>>, Vec<Vec<SagaId>>) = written.into_iter().unzip();
        removal.export("sagas", lines.concat()).await?;
        Ok(going.concat())
    }

    async fn lines(&self, old: &[SagaId]) -> Result<Vec<String>, NotPruned> {
        let keys = self.store.keys_of_sagas(old).await?;
        let stored = self.store.load(old).await?;
        stored.iter().map(|saga| line(&SagaLine::of(saga, &keys)?)).collect()
    }

    /// Removes these together.
    async fn remove(&self, old: &[SagaId], removal: &Removal<'_>) -> Result<(), NotPruned> {
        let gone = self.store.remove_sagas(old, self.status, self.age).await?;
        removal.removed("sagas", gone.sagas);
        removal.removed("saga_events", gone.events);
        removal.removed("keys", gone.keys);
        removal.removed("jobs", gone.jobs);
        Ok(())
    }
}

#[async_trait]
impl Pruner for Ended {
    async fn prune(&self, removal: &Removal<'_>) -> Result<bool, NotPruned> {
        let mut page = self.store.old_sagas(self.status, self.age, self.walk.reached(), BATCH).await?;
        let bulks: HashMap<SagaId, Bulk> = self.store.bulk_of_sagas(&page.old).await?.into_iter().collect();
        let fitting = fitting(page.old.iter().map(|saga| bulks.get(saga).copied().unwrap_or_default()));
        if fitting < page.old.len() {
            page.old.truncate(fitting);
            page.next = page.old.last().copied();
        }
        let export = |old: Vec<SagaId>| self.export(old, removal);
        let remove = |old: Vec<SagaId>| async move { self.remove(&old, removal).await };
        removal.isolated(SAGA_RETENTION, "saga", page.old, export, remove).await?;
        Ok(self.walk.go_on(page.next))
    }

    fn shortest(&self) -> Option<Duration> {
        Some(self.age)
    }
}
