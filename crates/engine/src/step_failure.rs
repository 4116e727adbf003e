//! The error type of actions, compensations and hooks: `?` converts any error into it.

use std::any::Any;
use std::error::Error;
use std::fmt;

use backstitch_kernel::StepError;

/// What an action, a compensation or a hook returns.
pub type StepResult<T> = Result<T, StepFailure>;

/// Why an action, a compensation or a hook failed.
///
/// `?` converts every `std` error, `anyhow::Error` and `Box<dyn Error + Send + Sync>` into it. Such an error leaves the
/// outcome **in doubt**: a lost connection does not tell whether the service did its work. The step is retried, and
/// compensated if no attempt succeeds.
///
/// A [`StepError`] keeps what it says, also as the cause of another error: return [`StepError::not_done`] or
/// [`StepError::refused`] where you know that the attempt had no effect, and the step is not compensated.
///
/// ```
/// use backstitch::{Context, ErrorKind, StepError, StepFailure, StepResult};
///
/// async fn charge(ctx: Context<u32>) -> StepResult<String> {
///     // The request was not sent, so the service did nothing.
///     let body = serde_json::to_string(ctx.input()).map_err(|why| StepError::not_done(why.to_string()))?;
///     let response = send(&body)?; // in doubt: the service may have charged the card
///     if response == "declined" {
///         return Err(StepError::refused("the card is declined").with_code("CARD_DECLINED").into());
///     }
///     Ok(response)
/// }
/// # fn send(body: &str) -> Result<String, Box<dyn std::error::Error + Send + Sync>> { Ok(body.to_owned()) }
///
/// let lost = StepFailure::from(std::io::Error::other("connection reset"));
/// assert_eq!(lost.error().kind, ErrorKind::InDoubt);
/// let declined = StepFailure::from(StepError::refused("the card is declined"));
/// assert_eq!(declined.error().kind, ErrorKind::Refused);
/// ```
// It does not implement `Error` itself: its conversion from every error would then overlap with `impl From<T> for T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFailure(StepError);

impl StepFailure {
    /// The error as it is stored.
    #[must_use]
    pub fn error(&self) -> &StepError {
        &self.0
    }
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<StepFailure> for StepError {
    fn from(failure: StepFailure) -> Self {
        failure.0
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>> + 'static> From<E> for StepFailure {
    fn from(error: E) -> Self {
        // anyhow hides the type of its error once it is boxed, and a `StepError` could no longer be found in it.
        let any: &dyn Any = &error;
        if let Some(error) = any.downcast_ref::<anyhow::Error>() {
            return Self(classify(error.as_ref()));
        }
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self(classify(error.as_ref()))
    }
}

/// The first [`StepError`] among an error and its causes decides; without one the outcome is unknown. The message names
/// all causes.
fn classify(error: &(dyn Error + 'static)) -> StepError {
    let mut context = Vec::new();
    for cause in std::iter::successors(Some(error), |&error| error.source()) {
        if let Some(found) = cause.downcast_ref::<StepError>() {
            context.push(found.message.clone());
            return StepError { message: context.join(": "), ..found.clone() };
        }
        context.push(cause.to_string());
    }
    StepError::in_doubt(context.join(": "))
}
