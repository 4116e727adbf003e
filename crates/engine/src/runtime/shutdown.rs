//! Shutdown: everything gets a bounded time to end, even a store that never answers.

use std::time::Duration;

use tokio::time::timeout;

use super::{Phase, Shared};
use crate::store;

/// How long a stopped engine waits for each of these: whatever runs, the last commit, the node's farewell, and that the
/// store is put away.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl Shared {
    /// Waits for everything that runs to end and for the last commit to be written, once stopped, and gives back what
    /// this node owns. What the store does not answer in time is in doubt, as after a crash, and looked up in the log
    /// by the next owner of the sagas.
    pub(crate) async fn wind_up(&self) -> Result<(), store::Error> {
        let ended = async {
            self.loops.close();
            self.loops.wait().await;
            self.tasks.close();
            self.tasks.wait().await;
        };
        if timeout(LAST_WAIT, ended).await.is_err() {
            // An action that blocks its thread cannot be stopped; nothing it leads to can be written any more.
            tracing::warn!(
                "the store does not answer, or an action blocks its thread: neither is waited for any longer"
            );
            self.enter_phase(Phase::Abandoned);
        }
        tokio::join!(self.committer.close(LAST_WAIT), self.publisher.close(LAST_WAIT));
        let left = timeout(LAST_WAIT, self.store.leave(self.epoch())).await;
        left.unwrap_or_else(|_| {
            tracing::warn!(
                "the store does not answer: this node's sagas are taken up once its lease is over"
            );
            Err(store::Error::Unavailable(format!("no answer within {LAST_WAIT:?} to a node that leaves")))
        })?;
        // Whatever becomes of this, everything is given back.
        if timeout(LAST_WAIT, self.store.put_away()).await.is_err() {
            tracing::warn!(
                "the store is still being put away: what it keeps in several files belongs together"
            );
        }
        Ok(())
    }

    /// Waits for the store, but not beyond the engine's own end.
    pub(super) async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, store::Error>>,
    ) -> Result<T, store::Error> {
        tokio::select! {
            biased;
            answer = asked => answer,
            () = self.abandoned() => Err(store::Error::Unavailable("the engine has stopped".to_owned())),
        }
    }
}
