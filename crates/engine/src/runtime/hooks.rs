//! Calls what is to be called when a saga has ended: at least once, a bounded number of times.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::saga::State;
use backstitch_kernel::{Retry, SagaId};
use tokio::sync::Semaphore;

use super::catch_panic::{self, Ended};
use super::{STORE_RETRY, Shared, attempts};
use crate::jobs::{Job, JobOutcome, Settlement};
use crate::store::isolation::Isolable as _;
use crate::store::parked::{JOBS, park};
use crate::store::{self, Stored};
use crate::view::SagaState;

/// How long a hook may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than a hook may take, so that no other node calls it meanwhile.
const LEASE: Duration = Duration::from_secs(90);
/// Hooks called at once.
const AT_ONCE: usize = 64;

fn retries() -> Retry {
    Retry::exponential(5, Duration::from_secs(1)).with_cap(Duration::from_secs(60))
}

/// Calls hooks for as long as the engine runs. Each runs in a task of its own, so that a slow one holds up no other. A shutdown returns
/// unfinished hooks to their queue, however often that happens, and the next process calls them again.
pub(super) async fn call_hooks(shared: Arc<Shared>) {
    let _busy = shared.busy();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while !shared.is_stopping() {
        if let Err(error) = call_due(&shared, &room).await {
            tracing::warn!(%error, "cannot look for hooks to call");
        }
        shared.jobs.wait(shared.options.tick).await;
    }
}

async fn call_due(shared: &Arc<Shared>, room: &Arc<Semaphore>) -> Result<(), store::Error> {
    let queues = shared.registry.hook_queues();
    let free = room.available_permits();
    if queues.is_empty() || free == 0 {
        return Ok(());
    }
    for job in shared.store.lease_jobs(&queues, LEASE, free).await?.leased {
        // There is room: no other task takes any.
        let permit = room.clone().try_acquire_owned();
        let engine = shared.clone();
        shared.spawn(async move {
            let shared = engine;
            let outcome = tokio::select! {
                outcome = call(&shared, &job) => outcome,
                () = shared.stopped() => JobOutcome::Returned,
            };
            let settlement = Settlement::new(job.id, job.lease.token, outcome);
            let settled = shared.answer(shared.store.settle_jobs(&[settlement])).await;
            if let Err(error) = settled {
                tracing::warn!(saga = %job.saga, %error, "a hook's end is not on disk: it will be called again");
                park_rejected(&shared, job.id, error).await;
            }
            drop(permit);
            // A hook that was given up has left an alert.
            shared.outbox.wake();
            // There may be more than there was room for.
            shared.jobs.wake();
        });
    }
    Ok(())
}

/// A hook whose end the database rejects is called again later, and not whenever its lease is over.
async fn park_rejected(shared: &Shared, job: i64, error: store::Error) {
    if error.is_about_an_item()
        && let Err(error) = park(&*shared.store, JOBS, &[(job, error)]).await
    {
        tracing::warn!(job, %error, "a hook whose end is rejected cannot be parked");
    }
}

async fn call(shared: &Shared, job: &Job) -> JobOutcome {
    let mut error = match catch_panic::run(TIMEOUT, call_hook(shared, job)).await {
        Ended::Answered(Ok(())) => return JobOutcome::Completed,
        // The hook was not called, so this is none of its tries.
        Ended::Answered(Err(Failed::Away(why))) => {
            tracing::warn!(saga = %job.saga, why, "cannot read the saga of a hook");
            tokio::time::sleep(STORE_RETRY).await;
            return JobOutcome::Returned;
        }
        Ended::Answered(Err(Failed::Said(error))) => error,
        Ended::Panicked(panic) => format!("the hook panicked: {}", catch_panic::text(panic.as_ref())),
        Ended::TimedOut => format!("no answer within {} s", TIMEOUT.as_secs()),
    };
    attempts::shorten(&mut error, attempts::MAX_MESSAGE);
    let failures = job.lease.attempts + 1;
    let retry_after = retries().allows_another(failures).then(|| retries().wait(failures, 0));
    if retry_after.is_none() {
        tracing::error!(saga = %job.saga, hook = %job.subject, %error, "a hook failed for good");
    }
    JobOutcome::Failed { error, retry_after }
}

/// Why a hook has not done its work.
enum Failed {
    /// No saga can be read now.
    Away(String),
    Said(String),
}

impl<T: Display> From<T> for Failed {
    fn from(why: T) -> Self {
        Self::Said(why.to_string())
    }
}

async fn call_hook(shared: &Shared, job: &Job) -> Result<(), Failed> {
    let stored = read(shared, job.saga).await?.into_iter().next().ok_or("the saga is gone")?;
    let row = &stored.summary;
    let definition = shared.registry.version(&row.definition, row.version).ok_or("the definition is gone")?;
    // As it was when it came to the end that this is about.
    let end: u64 = job.payload.decode()?;
    let log = &stored.log[..stored.log.partition_point(|recorded| recorded.seq <= end)];
    let state = State::fold(&definition.definition, log)?;
    let hook =
        if job.subject.starts_with("on_success") { &definition.on_success } else { &definition.on_failure };
    let hook = hook.as_ref().ok_or("the definition has no such hook any more")?;
    hook(SagaState::of(job.saga, &definition.definition, &state)).await?;
    Ok(())
}

/// A saga that cannot be read while others can is not asked for without end; a store that is away for a moment may be
/// back the second time.
async fn read(shared: &Shared, saga: SagaId) -> Result<Vec<Stored>, Failed> {
    match shared.store.load(&[saga]).await {
        Err(store::Error::Unavailable(why)) if !shared.answers_about_sagas().await => Err(Failed::Away(why)),
        Err(store::Error::Unavailable(_)) => Ok(shared.store.load(&[saga]).await?),
        read => Ok(read?),
    }
}
