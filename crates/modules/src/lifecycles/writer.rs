//! Writes what is decided, in groups.

use std::sync::Arc;
use std::time::Duration;

use backstitch::group_commit::{GroupCommit, GroupWriter, NotWritten, Pace};
use backstitch::store;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::base::{Base, Side};
use super::batch::{Answer, Ask, Decided, Decider, Held};
use super::{on_file, on_server};

/// How often a batch is decided again that met somebody else's: both began the same key at the same moment.
const TRIES: usize = 5;

/// Writes wishes as decisions.
pub(super) struct Writer {
    group: GroupCommit<Ask, Answer>,
}

impl Writer {
    /// Actions that are kept for this process go to `held`.
    pub(super) fn start(
        base: Arc<Base>,
        lease: Duration,
        held: mpsc::UnboundedSender<Held>,
    ) -> Result<Self, store::Error> {
        let writers = base.writers();
        let group = GroupCommit::start(&AskWriter { base, lease, held }, writers, Pace::unlimited())?;
        Ok(Self { group })
    }

    /// Decides about one wish; what follows is on disk when this returns.
    pub(super) async fn write(&self, ask: Ask) -> Result<Answer, NotWritten> {
        self.group.write(ask).await
    }
}

#[derive(Clone)]
struct AskWriter {
    base: Arc<Base>,
    lease: Duration,
    held: mpsc::UnboundedSender<Held>,
}

impl GroupWriter for AskWriter {
    type Item = Ask;
    type Answer = Answer;

    const ISOLATES: bool = true;

    fn bytes(ask: &Ask) -> usize {
        ask.bytes()
    }

    async fn write(&self, asks: &[Ask]) -> Result<Vec<Answer>, store::Error> {
        write(&self.base, self.lease, &self.held, asks).await
    }
}

async fn write(
    base: &Arc<Base>,
    lease: Duration,
    held: &mpsc::UnboundedSender<Held>,
    asks: &[Ask],
) -> Result<Vec<Answer>, store::Error> {
    let decided = match base.side()? {
        Side::Sqlite(file) => {
            let (base, asks) = (base.clone(), asks.to_vec());
            let now = base.now();
            file.write_product(move |transaction| {
                on_file::write(transaction, &base, &decider(&base, lease), &asks, now)
            })
            .await??
        }
        Side::Postgres(_, acting) => {
            let mut tries = 0;
            loop {
                tries += 1;
                if let Some(decided) = on_server::write(acting, base, &decider(base, lease), asks).await? {
                    break decided;
                }
                if tries == TRIES {
                    let met = "others begin the same things at this moment: ask again";
                    return Err(store::Error::Unavailable(met.to_owned()));
                }
            }
        }
    };
    let Decided { writes, answers, held: kept } = decided;
    answers.iter().flatten().for_each(|moved| base.publish(moved));
    base.wake(!writes.messages.is_empty(), !writes.jobs.is_empty());
    for one in kept {
        // Whoever performs actions may have gone: its claim runs out, and somebody else does.
        let _ = held.send(one);
    }
    Ok(answers)
}

fn decider(base: &Base, lease: Duration) -> Decider<'_> {
    Decider {
        known: base.known(),
        seats: &base.seats,
        routes: &base.routes,
        node: &base.node,
        lease,
        since: Instant::now(),
    }
}
