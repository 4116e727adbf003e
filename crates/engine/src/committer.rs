//! Group commit: while one transaction is on its way to the disk, the next one gathers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::planting;
use crate::store::{self, Commit, Store, Verdict};

/// The most decisions written as one transaction: enough to drown the cost of a sync, few enough that nobody
/// waits long for its neighbours.
const MAX_BATCH: usize = 512;

/// Takes decisions from everywhere and writes them in groups.
#[derive(Clone)]
pub(crate) struct Committer {
    tickets: mpsc::UnboundedSender<Ticket>,
    written: Arc<Written>,
}

/// How much has been written.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) decisions: AtomicU64,
    pub(crate) transactions: AtomicU64,
}

#[expect(
    clippy::large_enum_variant,
    reason = "commits are the rule: a box for each would cost more than the room"
)]
enum Ticket {
    Commit(Commit, oneshot::Sender<Result<Verdict, Arc<store::Error>>>),
    Close(oneshot::Sender<()>),
}

impl Committer {
    /// Starts writing. A store that works on the calling thread gets one of its own.
    pub(crate) fn start(store: &Arc<dyn Store>) -> Result<Self, store::Error> {
        let (tickets, queue) = mpsc::unbounded_channel();
        let written = Arc::new(Written::default());
        let writing = write(store.clone(), queue, written.clone());
        if store.commits_on_the_calling_thread() {
            std::thread::Builder::new()
                .name("backstitch-commit".to_owned())
                .spawn(move || futures::executor::block_on(writing))
                .map_err(|why| store::Error::Unavailable(format!("no thread for the writer: {why}")))?;
        } else {
            tokio::spawn(writing);
        }
        Ok(Self { tickets, written })
    }

    /// Writes what is waiting and lets go of the store; whatever comes later is refused.
    pub(crate) async fn close(&self) {
        let (closed, done) = oneshot::channel();
        // Either way it is closed: now, or by somebody else before.
        if self.tickets.send(Ticket::Close(closed)).is_ok() {
            let _ = done.await;
        }
    }

    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// Writes a decision; answers once it is on disk, or known not to be.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Verdict, Arc<store::Error>> {
        let (answer, answered) = oneshot::channel();
        let gone = || Arc::new(store::Error::Unavailable("the engine has stopped".to_owned()));
        self.tickets.send(Ticket::Commit(commit, answer)).map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

async fn write(store: Arc<dyn Store>, mut queue: mpsc::UnboundedReceiver<Ticket>, written: Arc<Written>) {
    let mut tickets = Vec::with_capacity(MAX_BATCH);
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut answers = Vec::with_capacity(MAX_BATCH);
    let mut late_messages = Vec::new();
    while queue.recv_many(&mut tickets, MAX_BATCH).await > 0 {
        let mut closing = None;
        for ticket in tickets.drain(..) {
            match ticket {
                Ticket::Commit(commit, answer) => {
                    batch.push(commit);
                    answers.push(answer);
                }
                Ticket::Close(closed) => closing = Some(closed),
            }
        }
        planting::put_off_messages(&mut batch, &mut late_messages);
        let verdicts = store.commit(&batch).await.map_err(Arc::new);
        written.decisions.fetch_add(batch.len() as u64, Ordering::Relaxed);
        written.transactions.fetch_add(1, Ordering::Relaxed);
        batch.clear();
        // Nobody listening is no mistake: whoever asked has stopped meanwhile, and the log has the decision.
        match verdicts {
            Ok(verdicts) => {
                for (answer, verdict) in answers.drain(..).zip(verdicts) {
                    let _ = answer.send(Ok(verdict));
                }
            }
            Err(error) => {
                for answer in answers.drain(..) {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
        if let Some(closed) = closing {
            queue.close();
            drop(store);
            let _ = closed.send(());
            return;
        }
    }
}
