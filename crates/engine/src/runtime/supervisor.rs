//! Restarts the engine's loops when they panic: an engine that lost one would look alive.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::{Shared, catch_panic};

/// Pause before a loop is restarted, so that one that panics at once does not keep a core busy.
const REST: Duration = Duration::from_secs(1);

/// Runs a loop until it returns. One that panics is started again for as long as the engine runs; one that waits for
/// the store is dropped when the engine waits no longer.
pub(super) fn keep_going<F>(
    shared: &Arc<Shared>,
    name: &'static str,
    begin: impl Fn(Arc<Shared>) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let engine = shared.clone();
    shared.loops.spawn(async move {
        tokio::select! {
            () = restarted(&engine, name, begin) => {}
            () = engine.abandoned() => {}
        }
    });
}

async fn restarted<F: Future<Output = ()>>(
    shared: &Arc<Shared>,
    name: &'static str,
    begin: impl Fn(Arc<Shared>) -> F,
) {
    while let Err(panic) = AssertUnwindSafe(begin(shared.clone())).catch_unwind().await {
        let why = catch_panic::text(panic.as_ref());
        tracing::error!(name, why, "engine loop panicked; it is restarted");
        tokio::select! {
            () = tokio::time::sleep(REST) => {}
            () = shared.stopped() => return,
        }
    }
}
