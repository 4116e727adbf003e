//! Messages that programs ask for, written in groups: while one group is on its way to the disk, the next one gathers.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::error::Error;
use crate::runtime::{Shared, guarded};
use crate::store;
use crate::store::outbox::{Publication, Published};

/// Messages written as one transaction at most.
const MAX_BATCH: usize = 512;

type Answer = Result<Published, Arc<store::Error>>;

struct Ticket {
    publication: Publication,
    answer: oneshot::Sender<Answer>,
}

/// Takes messages from everywhere and writes them in groups.
pub(crate) struct Publisher {
    tickets: mpsc::UnboundedSender<Ticket>,
    waiting: Mutex<mpsc::UnboundedReceiver<Ticket>>,
}

impl Default for Publisher {
    fn default() -> Self {
        let (tickets, waiting) = mpsc::unbounded_channel();
        Self { tickets, waiting: Mutex::new(waiting) }
    }
}

impl Publisher {
    /// Writes a message; answers once it is on disk, or known not to be.
    pub(super) async fn publish(&self, publication: Publication) -> Result<Published, Error> {
        let (answer, answered) = oneshot::channel();
        self.tickets.send(Ticket { publication, answer }).map_err(|_| Error::ShuttingDown)?;
        let published = answered.await.map_err(|_| Error::ShuttingDown)?;
        published.map_err(Error::Store)
    }
}

/// Writes what programs ask for, for as long as the engine runs.
pub(crate) async fn keep_publishing(shared: Arc<Shared>) {
    let mut waiting = shared.publisher.waiting.lock().await;
    let mut tickets = Vec::with_capacity(MAX_BATCH);
    loop {
        let more = tokio::select! {
            taken = waiting.recv_many(&mut tickets, MAX_BATCH) => taken > 0,
            () = shared.stopping() => false,
        };
        if !more {
            // Whoever still waits is told that nothing is written any more.
            waiting.close();
            while waiting.try_recv().is_ok() {}
            return;
        }
        write(&shared, &mut tickets).await;
    }
}

async fn write(shared: &Shared, tickets: &mut Vec<Ticket>) {
    let _busy = shared.busy();
    let (batch, answers): (Vec<_>, Vec<_>) =
        tickets.drain(..).map(|ticket| (ticket.publication, ticket.answer)).unzip();
    // Whatever broke down in the middle, nobody knows what it wrote, and the next ones are to be written all the same.
    let publishing = AssertUnwindSafe(shared.store.publish(&batch, shared.options.clock.now()));
    let written = publishing.catch_unwind().await;
    let written = written.unwrap_or_else(|panic| Err(broken_down(panic.as_ref()))).map_err(Arc::new);
    let mut accepted = false;
    for (place, (publication, answer)) in batch.iter().zip(answers).enumerate() {
        let published = match &written {
            Ok(published) => published.get(place).cloned().ok_or_else(|| {
                Arc::new(store::Error::Unavailable("the store gave no answer: ask again".to_owned()))
            }),
            Err(why) => Err(why.clone()),
        };
        if matches!(published, Ok(Published::Accepted(_))) {
            accepted = true;
            shared.options.observer.enqueued(&publication.message.topic, 1);
        }
        // Nobody listening is no mistake: the message is written all the same.
        let _ = answer.send(published);
    }
    if accepted {
        shared.outbox.nudge();
    }
}

fn broken_down(panic: &(dyn Any + Send)) -> store::Error {
    let why = guarded::text(panic);
    tracing::error!(why, "the store broke down while it published");
    store::Error::Unavailable(format!("the store broke down while it published: {why}"))
}
