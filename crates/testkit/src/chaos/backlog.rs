//! Many unfinished sagas, as left by a process that crashes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstitch::clock::{Clock as _, Ids as _, RandomIds, SystemClock};
use backstitch::kernel::Payload;
use backstitch::kernel::saga::{Definition, Now, Start, start};
use backstitch::store::documents::DocumentVersion;
use backstitch::store::nodes::{Epoch, Node};
use backstitch::store::{Commit, NewRow, RowWrite, Store, Verdict};
use backstitch::{Announced, Context, Saga, SagaId, Step};

use super::check::Failure;
use crate::scale;

/// A node that adopts no saga for this long has stopped adopting.
const STALLED_AFTER: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Decisions written as one transaction.
const BATCH: usize = 500;

/// A saga of two instant steps, for runs in which only the number of sagas matters.
///
/// # Errors
/// Never: the definition is right.
pub fn saga() -> Result<Saga, backstitch::Problems> {
    let step = |id| Step::new(id, |_: Context<Option<u8>>| async { Ok(0) });
    Saga::builder("left-behind").step(step("first")).step(step("second")).build()
}

/// Writes this many sagas with a running first step, all of one owner, and returns the owner's number. The owner never
/// sends
/// another heartbeat.
///
/// # Errors
/// When the store refuses.
pub async fn leave_behind(store: &dyn Store, count: usize, lease: Duration) -> Result<Epoch, Failure> {
    let saga = saga()?;
    let definition = saga.definition();
    store
        .register(&DocumentVersion {
            name: definition.name().into(),
            version: definition.version(),
            fingerprint: Some(definition.fingerprint()),
            body: Payload::encode(definition.draft())?,
        })
        .await?;
    let epoch = store.join(&Node { name: "gone".to_owned(), lease, announced: Announced::default() }).await?;
    let ids = RandomIds::default();
    let mut left = count;
    while left > 0 {
        let size = left.min(BATCH);
        let batch: Vec<Commit> = (0..size).map(|_| unfinished(definition, &ids, epoch)).collect();
        let verdicts = store.commit(&batch).await?;
        if verdicts.iter().any(|verdict| *verdict != Verdict::Applied) {
            return Err("a new saga was refused".into());
        }
        left -= size;
    }
    Ok(epoch)
}

/// Waits until `remaining`, which counts the sagas of the dead owner, is 0.
///
/// # Errors
/// When no saga is adopted for a minute.
pub async fn all_adopted(mut remaining: impl AsyncFnMut() -> i64) -> Result<(), Failure> {
    let (mut fewest, mut progressed) = (i64::MAX, Instant::now());
    loop {
        let left = remaining().await;
        if left == 0 {
            return Ok(());
        }
        if left < fewest {
            (fewest, progressed) = (left, Instant::now());
        } else if progressed.elapsed() > STALLED_AFTER {
            return Err(format!("{left} sagas still belong to a dead process").into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Asserts the time limit in `./soak`. In `./test`, other tests share the machine.
///
/// # Panics
/// When a soak run took longer than 30 s.
pub fn assert_in_time(adoption: Duration) {
    let limit = Duration::from_secs(30);
    assert!(!scale::is_soak() || adoption < limit, "adoption took {adoption:?}; the limit is {limit:?}");
}

fn unfinished(definition: &Definition, ids: &RandomIds, epoch: Epoch) -> Commit {
    let at = SystemClock.now();
    let saga: SagaId = ids.next(at);
    let decision = start(definition, Start { input: Payload::default(), ..Start::default() }, Now::at(at));
    let row = NewRow {
        definition: definition.name().into(),
        version: definition.version(),
        status: decision.state.status,
        owner: Some(epoch),
        wake_at: None,
        failed_step: None,
        correlation_id: None,
        attributes: BTreeMap::new(),
        created_at: at,
    };
    Commit {
        saga,
        events: decision.events,
        row: Some(RowWrite::Insert(row)),
        consume_inbox_through: None,
        jobs: Vec::new(),
        withdrawn_jobs: Vec::new(),
        messages: Vec::new(),
        rows: Vec::new(),
        claim: None,
    }
}
