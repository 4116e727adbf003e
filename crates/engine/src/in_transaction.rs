//! Starting a saga inside the caller's own database transaction: it exists if, and only if, that commits.

use backstitch_kernel::SagaId;

use crate::error::Error;
use crate::runtime::executor;
use crate::start::{Starting, accepted, checked};
use crate::store::{self, Commit};

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
        let store = self.shared.store.clone();
        let commit = self.unowned()?;
        let verdict = store.database().server_of_transaction()?.commit_in(transaction, &commit).await?;
        accepted(commit.saga, verdict)
    }

    /// A start that leaves the saga without an owner.
    fn unowned(self) -> Result<Commit, Error> {
        let Self { shared, definition, request } = self;
        let definition = shared.registry.current(&definition).ok_or(Error::UnknownDefinition(definition))?;
        let new = checked(request?, &definition.name, &shared.options)?;
        Ok(executor::accept(&shared, &definition, new))
    }
}
