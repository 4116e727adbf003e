//! Group commit: while every writer has a batch on its way to the disk, the next one gathers.

use std::sync::Arc;
use std::time::Duration;

use backstitch::store;
use backstitch::store::isolation::{Isolable, Outcome, Part, isolate};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

/// The most that is written as one transaction.
const MAX_BATCH: usize = 256;
/// A batch that has so much takes no more: a statement is held in memory on both sides.
const MAX_BYTES: usize = 8 << 20;

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// Nobody writes any more.
    Closed,
    /// The database could not do its part for the batch it was in.
    Store(Arc<store::Error>),
}

type Answer<R> = Result<R, Arc<store::Error>>;
/// A thing, and who waits until it is written.
type Ticket<T, R> = (T, oneshot::Sender<Answer<R>>);

/// Takes things from everywhere and writes them in groups. It writes for as long as somebody holds it.
pub(crate) struct Batcher<T, R> {
    tickets: mpsc::UnboundedSender<Ticket<T, R>>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> Batcher<T, R> {
    /// Starts so many writers, of whom one begins so long after another at the earliest. What they write is answered in the
    /// order given. `bytes` says about how much a thing has.
    pub(crate) fn start<W, F>(writers: usize, between: Duration, bytes: fn(&T) -> usize, write: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>, store::Error>> + Send,
    {
        let (tickets, queue) = mpsc::unbounded_channel::<Ticket<T, R>>();
        let queue = Arc::new(Mutex::new((queue, Instant::now())));
        for _ in 0..writers.max(1) {
            let (queue, write) = (queue.clone(), write.clone());
            tokio::spawn(async move {
                loop {
                    let mut tickets = Vec::with_capacity(MAX_BATCH);
                    {
                        let (queue, not_before) = &mut *queue.lock().await;
                        tokio::time::sleep_until(*not_before).await;
                        let Some(first) = queue.recv().await else { return };
                        let mut size = bytes(&first.0);
                        tickets.push(first);
                        while tickets.len() < MAX_BATCH
                            && size < MAX_BYTES
                            && let Ok(next) = queue.try_recv()
                        {
                            size += bytes(&next.0);
                            tickets.push(next);
                        }
                        *not_before = Instant::now() + between;
                    }
                    let (batch, askers): (Vec<T>, Vec<oneshot::Sender<Answer<R>>>) =
                        tickets.into_iter().unzip();
                    for (answer, asker) in written(&write, batch).await.into_iter().zip(askers) {
                        // Nobody listening is no mistake: whoever asked has gone, and it is written.
                        let _ = asker.send(answer);
                    }
                }
            });
        }
        Self { tickets }
    }

    /// Writes one thing; it is on disk when this returns.
    pub(crate) async fn write(&self, thing: T) -> Result<R, NotWritten> {
        let (asker, answer) = oneshot::channel();
        self.tickets.send((thing, asker)).map_err(|_| NotWritten::Closed)?;
        answer.await.map_err(|_| NotWritten::Closed)?.map_err(NotWritten::Store)
    }
}

/// Nothing of a batch that is refused was written, and any of its things may be why.
struct InBatch(store::Error);

impl Isolable for InBatch {
    fn is_about_an_item(&self) -> bool {
        matches!(self.0, store::Error::Refused(_) | store::Error::Rejected(_))
    }
}

/// What cannot be written does not keep its neighbours from the disk.
async fn written<T, R, W, F>(write: &W, batch: Vec<T>) -> Vec<Answer<R>>
where
    T: Clone,
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Result<Vec<R>, store::Error>>,
{
    let parts = isolate(batch, |batch| {
        let written = write(batch);
        async move { written.await.map_err(InBatch) }
    });
    let mut answers = Vec::new();
    let mut failure = Arc::new(store::Error::Unavailable("the batch was not written".to_owned()));
    for Part { items, outcome } in parts.await {
        match outcome {
            Outcome::Written(written) => answers.extend(written.into_iter().map(Ok)),
            Outcome::Rejected(InBatch(why)) => answers.push(Err(Arc::new(why))),
            Outcome::Failed(InBatch(why)) => {
                failure = Arc::new(why);
                answers.extend(items.iter().map(|_| Err(failure.clone())));
            }
            Outcome::NotTried => answers.extend(items.iter().map(|_| Err(failure.clone()))),
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_batch_has_no_more_than_so_many_and_so_much() {
        for (size, most) in [(10, MAX_BATCH), (MAX_BYTES / 4, 4), (MAX_BYTES * 2, 1)] {
            let largest = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let seen = largest.clone();
            let batcher = Batcher::start(
                1,
                Duration::ZERO,
                |size: &usize| *size,
                move |batch: Vec<usize>| {
                    seen.fetch_max(batch.len(), std::sync::atomic::Ordering::SeqCst);
                    std::future::ready(Ok(batch))
                },
            );
            let written = (0..600).map(|_| batcher.write(size));
            let written = futures::future::join_all(written).await;
            assert!(written.iter().all(|answer| matches!(answer, Ok(told) if *told == size)));
            assert_eq!(largest.load(std::sync::atomic::Ordering::SeqCst), most, "{size} bytes each");
        }
    }
}
