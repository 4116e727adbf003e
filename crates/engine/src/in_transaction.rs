//! Starting a saga inside the caller's own database transaction: it exists if, and only if, that commits.

use std::sync::Arc;

use backstitch_kernel::SagaId;
use backstitch_kernel::saga;

use crate::error::Error;
use crate::start::{Starting, checked};
use crate::store::{self, Commit, NewRow, RowWrite, Verdict};

impl Starting {
    /// Starts the saga inside a transaction on the engine's own file, opened by the caller. Nothing runs before the
    /// caller commits; then the engine finds it within its tick, or at once after
    /// [`Engine::look_for_work`](crate::Engine::look_for_work). Begin the transaction as an immediate one, since SQLite
    /// refuses a deferred one that reads before it writes when the engine has written in between.
    ///
    /// # Errors
    /// When the request is refused or the file cannot be written; roll the transaction back then.
    #[cfg(feature = "sqlite")]
    pub fn in_sqlite(self, transaction: &rusqlite::Transaction<'_>) -> Result<SagaId, Error> {
        if let Some(definition) = self.shared.registry.current(&self.definition) {
            let version = definition.definition.version();
            let kept = store::sqlite::definition_in(transaction, &definition.name, version)?;
            definition.is_not_another(kept.as_ref())?;
        }
        let commit = self.unowned()?;
        let verdict = store::sqlite::commit_in(transaction, &commit)?;
        accepted(commit.saga, verdict)
    }

    /// Starts the saga inside a transaction on the engine's own database, opened by the caller. Nothing runs before
    /// the caller commits; then some node finds it within its tick, or at once after
    /// [`Engine::look_for_work`](crate::Engine::look_for_work) on this one.
    ///
    /// # Errors
    /// When the request is refused or the database cannot be written; roll the transaction back then.
    #[cfg(feature = "postgres")]
    pub async fn in_postgres(self, transaction: &tokio_postgres::Transaction<'_>) -> Result<SagaId, Error> {
        if let Some(definition) = self.shared.registry.current(&self.definition) {
            definition.keep(&*self.shared.store).await?;
        }
        let commit = self.unowned()?;
        let verdict = store::postgres::commit_in(transaction, &commit).await?;
        accepted(commit.saga, verdict)
    }

    /// The saga accepted and due at once, but nobody's yet.
    fn unowned(self) -> Result<Commit, Error> {
        let Self { shared, definition, request } = self;
        let definition = shared.registry.current(&definition).ok_or(Error::UnknownDefinition(definition))?;
        let at = shared.options.clock.now();
        let mut request = request?;
        let rows = std::mem::take(&mut request.rows);
        let (start, claim) = checked(request, &definition.name, &shared.options, at)?;
        let saga = shared.options.ids.next(at);
        // Be it late already: its end is for whoever drives it to decide.
        let decision = saga::accept(&definition.definition, start, at);
        let announced = &shared.options.announced;
        let messages = announced.messages(saga, &definition.name, &decision.events);
        let started = &decision.state.started;
        let row = NewRow {
            definition: Arc::clone(&definition.name),
            version: definition.definition.version(),
            status: decision.state.status,
            owner: None,
            wake_at: Some(at),
            failed_step: None,
            correlation_id: started.correlation_id.clone(),
            attributes: started.attributes.clone(),
            created_at: at,
        };
        Ok(Commit {
            saga,
            events: decision.events,
            row: Some(RowWrite::Insert(row)),
            consume_inbox_through: None,
            jobs: Vec::new(),
            withdrawn_jobs: Vec::new(),
            messages,
            rows,
            claim,
        })
    }
}

/// The saga that the request stands for.
pub(crate) fn accepted(saga: SagaId, verdict: Verdict) -> Result<SagaId, Error> {
    match verdict {
        Verdict::Applied => Ok(saga),
        Verdict::Replay(first) => Ok(first),
        Verdict::Conflict { saga, at, .. } => Err(Error::KeyConflict { saga, at }),
        Verdict::KeyHeld(why) => Err(Error::KeyHeld(why)),
        Verdict::Refused(why) => Err(store::Error::Refused(why).into()),
        Verdict::Fenced | Verdict::MailWaiting => Err(Error::Raced(saga)),
    }
}
