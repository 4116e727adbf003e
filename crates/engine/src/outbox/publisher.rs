//! Writes messages that programs publish, in groups.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::group_commit::{GroupCommit, GroupWriter, Pace};
use crate::options::Options;
use crate::outbox::Observer;
use crate::runtime::signal::Signal;
use crate::store::outbox::{Publication, Published};
use crate::store::{self, Store, Writers};

/// Takes messages from everywhere and writes them in groups.
pub(crate) type Publisher = GroupCommit<Publication, Published>;

/// Starts the publisher. It wakes `outbox`, and holds a token of `tasks` while it writes.
pub(crate) fn start(
    store: &Arc<dyn Store>,
    options: &Options,
    outbox: &Arc<Signal>,
    tasks: &TaskTracker,
) -> Result<Publisher, store::Error> {
    let writer = MessageWriter {
        store: store.clone(),
        clock: options.clock.clone(),
        observer: options.observer.clone(),
        outbox: outbox.clone(),
        tasks: tasks.clone(),
    };
    GroupCommit::start(&writer, Writers::Tasks(1), Pace::unlimited())
}

#[derive(Clone)]
struct MessageWriter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    outbox: Arc<Signal>,
    tasks: TaskTracker,
}

impl GroupWriter for MessageWriter {
    type Item = Publication;
    type Answer = Published;

    const MAX_ITEMS: usize = 512;

    fn bytes(publication: &Publication) -> usize {
        publication.message.payload.len()
    }

    async fn write(&self, publications: &[Publication]) -> Result<Vec<Published>, store::Error> {
        let _busy = self.tasks.token();
        let published = self.store.publish(publications, self.clock.now()).await?;
        let accepted = publications.iter().zip(&published);
        let accepted = accepted.filter(|(_, published)| matches!(published, Published::Accepted(_)));
        let mut is_any_accepted = false;
        for (publication, _) in accepted {
            is_any_accepted = true;
            self.observer.enqueued(&publication.message.topic, 1);
        }
        if is_any_accepted {
            self.outbox.wake();
        }
        Ok(published)
    }
}
