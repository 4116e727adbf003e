//! The attempts of one saga that run in this process: each once, in a task of its own, never longer than its timeout, and
//! never with a panic that leaves it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use backstitch_kernel::saga::{Outcome, Phase};
use backstitch_kernel::{ErrorKind, Payload, StepError};
use futures::FutureExt;
use tokio::task::JoinSet;

use super::Shared;
use super::catch_panic::{self, Ended};
use crate::call::Call;
use crate::store::nodes::Epoch;

/// What is kept of an error's message, in bytes.
pub(super) const MAX_MESSAGE: usize = 4096;
/// What is kept of an error's code, in bytes.
const MAX_CODE: usize = 256;

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

/// Runs the attempt to its end; `begins` is called when its time does. `epoch` is that of the saga's owner.
pub(super) async fn run(
    shared: &Shared,
    call: Arc<Call>,
    epoch: Epoch,
    begins: Option<impl FnOnce()>,
) -> Outcome {
    let definition = call.definition.clone();
    let step = &definition.definition.steps()[call.position];
    let handlers = &definition.handlers[call.position];
    let handler = match call.phase {
        Phase::Do => &handlers.action,
        Phase::Undo => &handlers.compensation,
    };
    let timeout = step.time_of_attempt(call.phase, &call.state.steps[call.position], call.state.at);
    let (Some(handler), Some(timeout)) = (handler, timeout) else {
        let message = format!("this node has no code for the {} of step `{}`", call.phase.as_str(), step.id);
        return Outcome::Failed(StepError::not_done(message));
    };
    // Only now: a node that waited may have been declared dead meanwhile.
    shared.liveness.permitted().await;
    // The executor is about to abort this attempt: another node may own the saga, or the engine has stopped.
    if shared.is_stopped() || shared.epoch() != epoch {
        return std::future::pending().await;
    }
    if let Some(begins) = begins {
        begins();
    }
    let phase = call.phase;
    match catch_panic::run(timeout, async { handler(call).await }).await {
        // A compensation that is done stays done.
        Ended::Answered(Ok(result)) if phase == Phase::Undo && result.len() > shared.options.max_payload => {
            let (size, limit) = (result.len(), shared.options.max_payload);
            tracing::warn!(step = %step.id, size, limit, "a compensation's result is too large; it is not kept");
            Outcome::Succeeded(Payload::null())
        }
        Ended::Answered(Ok(result)) if result.len() > shared.options.max_payload => {
            let (size, limit) = (result.len(), shared.options.max_payload);
            let message = format!("the result has {size} bytes, the limit is {limit}: keep it elsewhere");
            Outcome::Failed(StepError::new(ErrorKind::Unusable, message))
        }
        Ended::Answered(Ok(result)) => Outcome::Succeeded(result),
        Ended::Answered(Err(error)) => Outcome::Failed(bounded(error)),
        Ended::Panicked(panic) => panicked(panic.as_ref()),
        Ended::TimedOut => {
            let message = format!("no answer within {} ms", timeout.as_millis());
            Outcome::Failed(StepError::new(ErrorKind::TimedOut, message))
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let message = format!("the step panicked: {}", catch_panic::text(panic));
    Outcome::Failed(bounded(StepError::new(ErrorKind::Panicked, message)))
}

/// An error is written into several events: a long one keeps its beginning.
pub(crate) fn bounded(mut error: StepError) -> StepError {
    shorten(&mut error.message, MAX_MESSAGE);
    if let Some(code) = &mut error.code {
        shorten(code, MAX_CODE);
    }
    error
}

pub(super) fn shorten(text: &mut String, limit: usize) {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}
