//! What was read last about the keys, and the reads of them that are running.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use backstitch::store::Error;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// How long requests wait for a read. A store that takes longer counts as unavailable, and the next request begins another read:
/// only the connection of the first may be dead.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How long a read may take. It goes on when all who wait for it have given up, so that what a slow store says counts in the end.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

/// For how long the last read is trusted while the store is unavailable: a key that was revoked meanwhile opens reports for no
/// longer.
const TRUSTED_FOR: Duration = Duration::from_secs(15 * 60);

type Reads<T> = dyn Fn() -> BoxFuture<'static, Result<T, Error>> + Send + Sync;
type Outcome<T> = Result<Arc<Snapshot<T>>, String>;

/// Reads the keys when they are too old, once for all who ask at the same time.
pub(super) struct KeyCache<T> {
    read: Box<Reads<T>>,
    last: Arc<ArcSwap<Snapshot<T>>>,
    newest: Mutex<Option<Read<T>>>,
}

/// The keys as they were at a time.
pub(super) struct Snapshot<T> {
    /// When the store was asked: what is revoked while it answers must not seem fresher than it is.
    asked_at: Instant,
    keys: T,
}

impl<T> Deref for Snapshot<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.keys
    }
}

/// A read that was begun.
struct Read<T> {
    asked_at: Instant,
    task: AbortHandle,
    outcome: Shared<BoxFuture<'static, Outcome<T>>>,
}

impl<T> Clone for Read<T> {
    fn clone(&self) -> Self {
        Self { asked_at: self.asked_at, task: self.task.clone(), outcome: self.outcome.clone() }
    }
}

impl<T: Send + Sync + 'static> KeyCache<T> {
    /// Reads them for the first time.
    pub(super) async fn open(
        read: impl Fn() -> BoxFuture<'static, Result<T, Error>> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let asked_at = Instant::now();
        let keys = read().await?;
        let last = Arc::new(ArcSwap::from_pointee(Snapshot { asked_at, keys }));
        Ok(Self { read: Box::new(read), last, newest: Mutex::default() })
    }

    /// The keys as they were no longer than `age` ago.
    pub(super) async fn within(&self, age: Duration) -> Result<Arc<Snapshot<T>>, Error> {
        let now = Instant::now();
        let is_fresh = |snapshot: &Snapshot<T>| {
            snapshot.asked_at > now || now.saturating_duration_since(snapshot.asked_at) < age
        };
        let last = self.last.load_full();
        if is_fresh(&last) {
            return Ok(last);
        }
        loop {
            let (read, is_new) = self.join_or_begin();
            // From its beginning: nobody waits once more for a store that is known to be silent.
            let outcome = timeout_at(read.asked_at + ANSWER_WITHIN, read.outcome).await;
            let silent = |_| format!("the API keys could not be read within {ANSWER_WITHIN:?}");
            let snapshot = outcome.map_err(silent).flatten().map_err(Error::Unavailable)?;
            if is_new || is_fresh(&snapshot) {
                return Ok(snapshot);
            }
        }
    }

    /// The same; while the store is unavailable, as they were read last, if that is not too long ago.
    pub(super) async fn within_or_last(&self, age: Duration) -> Result<Arc<Snapshot<T>>, Error> {
        let error = match self.within(age).await {
            Ok(snapshot) => return Ok(snapshot),
            Err(error) => error,
        };
        let last = self.last.load_full();
        if last.asked_at.elapsed() >= TRUSTED_FOR {
            return Err(error);
        }
        tracing::warn!(%error, "cannot reload API keys; keeping the cached ones");
        Ok(last)
    }

    /// The read that may still answer in time, or a new one, and whether it is new.
    fn join_or_begin(&self) -> (Read<T>, bool) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let may_answer =
            |read: &&Read<T>| !read.task.is_finished() && read.asked_at.elapsed() < ANSWER_WITHIN;
        if let Some(read) = newest.as_ref().filter(may_answer) {
            return (read.clone(), false);
        }
        let (asked_at, reading, last) = (Instant::now(), (self.read)(), self.last.clone());
        // A task of its own: no request that gives up ends it.
        let task = tokio::spawn(async move {
            let silent = |_| Error::Unavailable(format!("no answer within {GIVEN_UP_AFTER:?}"));
            let keys = timeout(GIVEN_UP_AFTER, reading).await.map_err(silent).flatten();
            let keys = keys.map_err(|error| match error {
                Error::Unavailable(why) => why,
                other => other.to_string(),
            })?;
            let snapshot = Arc::new(Snapshot { asked_at, keys });
            // An earlier read may answer later.
            last.rcu(|last| if last.asked_at > asked_at { last.clone() } else { snapshot.clone() });
            Ok(snapshot)
        });
        let read = Read {
            asked_at,
            task: task.abort_handle(),
            outcome: task.map(|done| done.map_err(|why| why.to_string()).flatten()).boxed().shared(),
        };
        *newest = Some(read.clone());
        (read, true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const FRESH_FOR: Duration = Duration::from_secs(2);

    /// Holds the number of the read. All but the first take this long.
    async fn cache(takes: Duration) -> (KeyCache<usize>, Arc<AtomicUsize>) {
        cache_of(move |_| takes).await
    }

    /// The same by the number of the read.
    async fn cache_of(
        takes: impl Fn(usize) -> Duration + Send + Sync + 'static,
    ) -> (KeyCache<usize>, Arc<AtomicUsize>) {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = reads.clone();
        let read = move || {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let takes = takes(number);
            async move {
                if number > 0 {
                    tokio::time::sleep(takes).await;
                }
                Ok(number)
            }
            .boxed()
        };
        let cache = KeyCache::open(read).await.unwrap();
        tokio::time::advance(FRESH_FOR).await;
        (cache, reads)
    }

    #[tokio::test(start_paused = true)]
    async fn report_waits_for_a_slow_store_that_answers() {
        let (cache, _) = cache(Duration::from_millis(2500)).await;
        assert_eq!(**cache.within_or_last(FRESH_FOR).await.unwrap(), 1, "not what was read before");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_read_counts_after_its_requests_gave_up() {
        let (cache, _) = cache(Duration::from_secs(8)).await;
        let refused = cache.within(FRESH_FOR).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        assert_eq!(**cache.within_or_last(FRESH_FOR).await.unwrap(), 0, "the last one meanwhile");
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(**cache.last.load_full(), 1, "what it said in the end");
    }

    #[tokio::test(start_paused = true)]
    async fn request_after_a_read_that_hangs_begins_another() {
        // The first read hangs on a dead connection, the next one answers at once.
        let (cache, reads) = cache_of(|number| Duration::from_secs(if number == 1 { 8 } else { 0 })).await;
        cache.within(FRESH_FOR).await.map(|_| ()).unwrap_err();
        assert_eq!(**cache.within(FRESH_FOR).await.unwrap(), 2);
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(**cache.last.load_full(), 2, "the hanging read began before");
        assert_eq!(reads.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn last_read_is_trusted_for_a_bounded_time() {
        let (cache, _) = cache(Duration::MAX).await;
        assert_eq!(**cache.within_or_last(FRESH_FOR).await.unwrap(), 0);
        tokio::time::advance(TRUSTED_FOR).await;
        let refused = cache.within_or_last(FRESH_FOR).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_share_a_read_that_is_fresh_enough() {
        let (cache, reads) = cache(Duration::from_secs(1)).await;
        let asked = (0..10).map(|_| cache.within(FRESH_FOR));
        for snapshot in futures::future::join_all(asked).await {
            assert_eq!(**snapshot.unwrap(), 1);
        }
        let (early, late) = tokio::join!(
            async {
                tokio::time::advance(FRESH_FOR).await;
                cache.within(FRESH_FOR).await.unwrap()
            },
            async {
                while reads.load(Ordering::SeqCst) < 3 {
                    tokio::task::yield_now().await;
                }
                cache.within(Duration::ZERO).await.unwrap()
            }
        );
        assert_eq!((**early, **late), (2, 3), "one that began before is not enough for whoever signs out");
    }
}
