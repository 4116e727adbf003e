//! One attempt of one step: at most once in this process, never longer than its timeout, and never a panic.

use std::any::Any;
use std::sync::Arc;

use backstitch_kernel::saga::{Outcome, Phase};
use backstitch_kernel::{ErrorKind, Payload, StepError};

use super::Shared;
use super::guarded::{self, Ended};
use crate::call::Call;
use crate::store::nodes::Epoch;

/// What is kept of an error's message, in bytes.
pub(super) const MAX_MESSAGE: usize = 4096;
/// What is kept of an error's code, in bytes.
const MAX_CODE: usize = 256;

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
    // Only now: whoever has waited may have been taken for dead meanwhile.
    shared.liveness.permitted().await;
    // The driver is about to abort this attempt: another node may own the saga, or the engine has stopped.
    if shared.is_stopped() || shared.epoch() != epoch {
        return std::future::pending().await;
    }
    if let Some(begins) = begins {
        begins();
    }
    let phase = call.phase;
    match guarded::run(timeout, async { handler(call).await }).await {
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
    let message = format!("the step panicked: {}", guarded::text(panic));
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
