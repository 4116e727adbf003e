//! Spin-waits between callers and a writer that has a thread of its own.
//!
//! On a fast disk, to wake a sleeping thread costs more than to write. Three waits keep both sides awake for about that
//! long. They were measured: the first two for the p50 of a lone saga, the third for the throughput of 256 at once.
//!
//! 1. The writer looks for the next item before it sleeps ([`LINGER`]): a caller that was just answered often writes
//!    again at once.
//! 2. A lone caller waits awake for its answer ([`AWAKE`]).
//! 3. The writer yields while its queue grows ([`YIELDS`]): on a busy machine callers wait for its core, and what they
//!    write together costs little more than what one of them writes alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::store::Writers;

/// How often the writer looks for an item before it sleeps: as long as it would take to wake it.
const LINGER: usize = 200;
/// How long a lone caller stays awake: longer than most disks take.
const AWAKE: Duration = Duration::from_micros(400);
/// How often the writer yields to callers before it writes. On a busy machine each may take a while, and the first
/// caller waits for all of them.
const YIELDS: usize = 8;

/// Whether callers wait awake: there is a thread to wait for, and a core beside it.
pub(super) fn is_worth_it(writers: Writers) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    writers == Writers::OwnThread && cores > 1
}

/// Waits for an item, and then for those that are about to come.
pub(super) fn gather<T>(queue: &mpsc::UnboundedReceiver<T>, most: usize) {
    for _ in 0..LINGER {
        if !queue.is_empty() {
            break;
        }
        std::thread::yield_now();
    }
    let mut waiting = queue.len();
    for _ in 0..YIELDS {
        if waiting == 0 || waiting >= most {
            return;
        }
        std::thread::yield_now();
        let more = queue.len();
        if more == waiting {
            return;
        }
        waiting = more;
    }
}

/// A caller that waits for its answer.
pub(super) struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    pub(super) fn among(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for an answer without sleeping, while there is no other caller and it is likely to come.
pub(super) async fn stay_awake<T>(waiting: &AtomicUsize, answered: &mut oneshot::Receiver<T>) {
    let until = Instant::now() + AWAKE;
    while answered.is_empty() && waiting.load(Ordering::Relaxed) == 1 && Instant::now() < until {
        tokio::task::yield_now().await;
    }
}
