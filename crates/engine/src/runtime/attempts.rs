//! The attempts of one saga that run in this process, each in its own task.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use futures::FutureExt;
use tokio::task::JoinSet;

/// Attempts run on while their saga commits: a store that stalls delays decisions, not the work of other steps.
/// Dropping it aborts them.
pub(super) struct Attempts<T> {
    /// Those that ended at their first poll.
    ended: VecDeque<T>,
    tasks: JoinSet<T>,
}

impl<T> Default for Attempts<T> {
    fn default() -> Self {
        Self { ended: VecDeque::new(), tasks: JoinSet::new() }
    }
}

impl<T: Send + 'static> Attempts<T> {
    /// Starts an attempt. The first poll is made here: an attempt that waits for nothing costs no task.
    pub(super) fn start(&mut self, attempt: impl Future<Output = T> + Send + 'static) {
        let mut attempt = Box::pin(attempt);
        match (&mut attempt).now_or_never() {
            Some(ended) => self.ended.push_back(ended),
            None => {
                self.tasks.spawn(attempt);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.tasks.is_empty()
    }

    /// The next attempt that has ended; waits forever when none runs. Dropping this future loses no attempt.
    pub(super) async fn next(&mut self) -> T {
        if let Some(ended) = self.ended.pop_front() {
            return ended;
        }
        match self.tasks.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
            // A task is cancelled only when its runtime shuts down.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Aborts all attempts and waits until none of them runs any more.
    pub(super) async fn abort(&mut self) {
        self.ended.clear();
        self.tasks.shutdown().await;
    }
}
