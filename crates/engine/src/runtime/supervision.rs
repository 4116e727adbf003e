//! The engine's loops are kept going: were one to end silently, part of the engine would be dead while it looks alive.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::{Shared, guarded};

/// How long a loop that broke down rests, so that one that does so at once keeps nobody busy.
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
        let why = guarded::text(panic.as_ref());
        tracing::error!(name, why, "a part of the engine broke down and is started again");
        tokio::select! {
            () = tokio::time::sleep(REST) => {}
            () = shared.stopped() => return,
        }
    }
}
