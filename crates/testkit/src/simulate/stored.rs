//! A real store as a journal, so the same seeds run over SQLite and PostgreSQL.

use std::sync::Arc;

use backstitch::store::{Commit, NewRow, RowUpdate, RowWrite, Store, Verdict};
use backstitch_kernel::saga::{Event, Recorded, Status};
use backstitch_kernel::{SagaId, StepId};
use tokio::runtime::Handle;

use super::{Journal, Refusal};

/// A store used from a blocking thread.
pub struct Stored {
    store: Arc<dyn Store>,
    runtime: Handle,
}

impl Stored {
    /// Wraps this store with this runtime.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, runtime: Handle) -> Self {
        Self { store, runtime }
    }

    /// The status and the failed step of the saga's row; `None` without a row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn row(&self, saga: SagaId) -> Result<Option<(Status, Option<StepId>)>, Refusal> {
        let found = self.runtime.block_on(self.store.load(&[saga])).map_err(|why| broken(&why))?;
        Ok(found.into_iter().next().map(|stored| (stored.summary.status, stored.summary.failed_step)))
    }
}

fn broken(why: &impl ToString) -> Refusal {
    Refusal::Broken(why.to_string())
}

impl Journal for Stored {
    fn append(&mut self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal> {
        // Like the engine: a resolution is written by itself, then its consequences.
        match events {
            [resolved @ Recorded { event: Event::StepResolved { .. }, .. }, rest @ ..]
                if !rest.is_empty() =>
            {
                self.write(saga, expected_seq, std::slice::from_ref(resolved))?;
                self.write(saga, expected_seq + 1, rest)
            }
            events => self.write(saga, expected_seq, events),
        }
    }

    fn load(&mut self, saga: SagaId) -> Result<Vec<Recorded>, Refusal> {
        let found = self.runtime.block_on(self.store.load(&[saga])).map_err(|why| broken(&why))?;
        Ok(found.into_iter().next().map(|stored| stored.log).unwrap_or_default())
    }
}

impl Stored {
    fn write(&self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal> {
        let commit = Commit {
            saga,
            events: events.to_vec(),
            row: row(events),
            consume_inbox_through: None,
            jobs: Vec::new(),
            withdrawn_jobs: Vec::new(),
            messages: Vec::new(),
            rows: Vec::new(),
            claim: None,
        };
        if events.first().is_none_or(|first| first.seq != expected_seq + 1) {
            return Err(Refusal::Broken("the events do not follow the expected one".to_owned()));
        }
        let verdicts = self.runtime.block_on(self.store.commit(&[commit])).map_err(|why| broken(&why))?;
        match verdicts.as_slice() {
            [Verdict::Applied] => Ok(()),
            [Verdict::Fenced] => Err(Refusal::Fenced),
            other => Err(Refusal::Broken(format!("{other:?}"))),
        }
    }
}

/// The changes of these events to the saga's row, computed from the events alone.
fn row(events: &[Recorded]) -> Option<RowWrite> {
    let newest = events.last()?;
    let status = events.iter().filter_map(|recorded| status_after(&recorded.event)).next_back();
    let failed_step = events.iter().find_map(|recorded| match &recorded.event {
        Event::SagaCompensating { failed_step, .. } => failed_step.clone(),
        _ => None,
    });
    if let Some(Recorded { event: Event::SagaStarted(started), at, .. }) = events.first() {
        return Some(RowWrite::Insert(NewRow {
            definition: started.definition.as_str().into(),
            version: started.version,
            status: status.unwrap_or(Status::Pending),
            owner: None,
            wake_at: None,
            failed_step,
            correlation_id: None,
            attributes: started.attributes.clone(),
            created_at: *at,
        }));
    }
    status.map(|status| {
        RowWrite::Update(RowUpdate {
            status,
            paused: false,
            failed_step,
            owner: None,
            wake_at: None,
            updated_at: newest.at,
            inbox_seen: None,
        })
    })
}

fn status_after(event: &Event) -> Option<Status> {
    match event {
        Event::StepStarted { .. } => Some(Status::Running),
        Event::SagaSucceeded => Some(Status::Succeeded),
        Event::SagaFailed { .. } => Some(Status::Failed),
        Event::SagaCompensated { .. } => Some(Status::Compensated),
        Event::SagaCompensating { .. } | Event::StepResolved { .. } => Some(Status::Compensating),
        _ => None,
    }
}
