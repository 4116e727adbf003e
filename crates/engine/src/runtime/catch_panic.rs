//! Runs user code with a timeout and catches its panics, also while it is dropped.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout};

/// A timer that fires later than this: the process was suspended, or had no CPU.
const NOTICEABLY_LATE: Duration = Duration::from_millis(100);
/// Time to read what arrived while the process was suspended.
const LONGEST_GRACE: Duration = Duration::from_secs(1);

/// How it ended.
pub(crate) enum Ended<T> {
    Answered(T),
    Panicked(Panic),
    TimedOut,
}

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

/// What a panic says.
pub(crate) fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// Runs this to its end, but not for longer than `limit`. An answer that arrived in time counts, even if the process
/// could not read it in time.
pub(crate) async fn run<F: Future>(limit: Duration, work: F) -> Ended<F::Output> {
    let mut work = Shielded(Some(Box::pin(work)));
    let started = Instant::now();
    let mut answer = timeout(limit, &mut work).await;
    let late = started.elapsed().saturating_sub(limit);
    if answer.is_err() && late > NOTICEABLY_LATE {
        answer = timeout(late.min(LONGEST_GRACE), &mut work).await;
    }
    match answer {
        Ok(Ok(answer)) => Ended::Answered(answer),
        Ok(Err(panic)) => Ended::Panicked(panic),
        Err(_) => Ended::TimedOut,
    }
}

/// A future whose panics go no further, whether it is polled or dropped.
struct Shielded<F>(Option<Pin<Box<F>>>);

impl<F: Future> Future for Shielded<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // It is taken away only to be dropped.
        let Some(work) = &mut self.0 else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<F> Drop for Shielded<F> {
    fn drop(&mut self) {
        let work = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(work))).is_err() {
            tracing::warn!("step future panicked while being dropped");
        }
    }
}
