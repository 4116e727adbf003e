//! The only one who changes where a delivery stands.
//!
//! It makes first jobs for new deliveries and further ones for those whose wait is over, and takes in what came of them;
//! what follows is the kernel's to say ([`delivery::decide`]). Each change is guarded by the status and the job it was
//! decided on, in the transaction that consumes its cause. It sends nothing, and touches no event, no subscription, no
//! lease and no payload.

mod on_file;
mod on_server;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use backstitch::kernel::delivery::{self, Delivery, Input, Outcome, Policy, Status};
use backstitch::store::isolation::{Isolable as _, PickedBatch, isolate_picked};
use backstitch::store::parked::park_item;
use backstitch::store::postgres::Acting;
use backstitch::store::sqlite::SqliteStore;
use backstitch::{Timestamp, store};
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::base::{Base, Part, Side};
use super::observer::{Nobody, Observer};
use super::parked::{DELIVERIES, RESULTS};
use crate::question::statement;

/// Decisions in one transaction at most, of each kind.
const BATCH: u32 = 512;
/// Other nodes ingest and report too, and nobody tells: it is looked for.
const TICK: Duration = Duration::from_secs(1);
/// What is due right after everything was decided is in somebody else's hands.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);
/// How long a database that does not answer is left alone.
const STORE_RETRY: Duration = Duration::from_millis(500);

/// Decides about deliveries.
pub struct Orchestrator {
    base: Arc<Base>,
}

/// What one look led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Attempts begun, each a new job.
    pub begun: usize,
    /// Results that counted.
    pub applied: usize,
    /// Results that changed nothing: they had counted before.
    pub ignored: usize,
    /// Deliveries that arrived.
    pub completed: usize,
    /// Deliveries given up.
    pub dead_lettered: usize,
    /// There was more than one look can take.
    pub more: bool,
}

impl Orchestrator {
    pub(super) fn on(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Decides what there is to decide, up to a batch.
    ///
    /// # Errors
    /// When the database cannot be written; what was undone is decided next time.
    pub async fn tick(&self) -> Result<Progress, store::Error> {
        self.decide(Share::Everything).await
    }

    /// Looks until nothing more is to be decided now.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn settle(&self) -> Result<Progress, store::Error> {
        self.settle_share(Share::Everything, &Nobody).await
    }

    async fn decide(&self, share: Share) -> Result<Progress, store::Error> {
        let progress = match (self.base.side(Part::Orchestrator)?, share) {
            (Side::Sqlite(file), _) => match self.tick_file(file, Picked::All, Picked::All).await {
                // It is one or the other: each is decided on its own.
                Err(error) if error.is_about_an_item() => {
                    let taken_in = Box::pin(self.take_in_file(file)).await?;
                    taken_in.and(Box::pin(self.begin_file(file)).await?)
                }
                progress => progress?,
            },
            (Side::Postgres(server), Share::Everything) => {
                // Boxed, since both together are large; the loops decide one of them at a time.
                let both = Box::pin(async { tokio::try_join!(self.take_in(server), self.begin(server)) });
                let (taken_in, begun) = both.await?;
                taken_in.and(begun)
            }
            (Side::Postgres(server), Share::Results) => self.take_in(server).await?,
            (Side::Postgres(server), Share::Attempts) => self.begin(server).await?,
        };
        if progress.begun > 0 {
            self.base.work_soon();
        }
        Ok(progress)
    }

    async fn tick_file(
        &self,
        file: &SqliteStore,
        results: Picked,
        due: Picked,
    ) -> Result<Progress, store::Error> {
        let (now, defaults) = (self.base.now(), self.base.defaults);
        file.write_product(move |transaction| on_file::tick(transaction, &results, &due, now, defaults)).await
    }

    async fn take_in_file(&self, file: &SqliteStore) -> Result<Progress, store::Error> {
        let (now, defaults) = (self.base.now(), self.base.defaults);
        let waiting =
            || file.read_product(move |connection| on_file::waiting_results(connection, now, defaults));
        let taken_in = isolate_picked(
            waiting,
            |only| self.tick_file(file, Picked::these(only), Picked::None),
            self.parking(RESULTS),
        );
        progress(taken_in.await?)
    }

    async fn begin_file(&self, file: &SqliteStore) -> Result<Progress, store::Error> {
        let (now, defaults) = (self.base.now(), self.base.defaults);
        let due = || file.read_product(move |connection| on_file::due_deliveries(connection, now, defaults));
        let begun = isolate_picked(
            due,
            |only| self.tick_file(file, Picked::None, Picked::these(only)),
            self.parking(DELIVERIES),
        );
        progress(begun.await?)
    }

    async fn take_in(&self, server: &Acting) -> Result<Progress, store::Error> {
        let defaults = self.base.defaults;
        let taken_in = isolate_picked(
            || on_server::waiting_results(server),
            |only| async move { on_server::take_in(server, &Picked::these(only), defaults).await },
            self.parking(RESULTS),
        );
        let progress = progress(taken_in.await?)?;
        // Whoever begins attempts does not know yet when these are due again.
        if progress.applied > progress.completed + progress.dead_lettered {
            self.base.begin_soon();
        }
        Ok(progress)
    }

    async fn begin(&self, server: &Acting) -> Result<Progress, store::Error> {
        let defaults = self.base.defaults;
        let begun = isolate_picked(
            || on_server::due_deliveries(server),
            |only| async move { on_server::begin(server, &Picked::these(only), defaults).await },
            self.parking(DELIVERIES),
        );
        progress(begun.await?)
    }

    /// Parks what is rejected.
    fn parking<'s>(
        &'s self,
        area: &'static str,
    ) -> impl Fn(i64, String) -> BoxFuture<'s, Result<(), store::Error>> + Send + Sync {
        move |item, reason| Box::pin(park_item(self.base.store(), area, item, reason))
    }

    async fn settle_share(&self, share: Share, observer: &dyn Observer) -> Result<Progress, store::Error> {
        let mut all = Progress::default();
        loop {
            let progress = self.decide(share).await?;
            // Whatever becomes of the next batch, this one is on disk.
            observer.progressed(&progress);
            all = all.and(progress);
            if !progress.more {
                return Ok(Progress { more: false, ..all });
            }
        }
    }

    /// When the next delivery is due; `None` when none waits.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, store::Error> {
        let now = self.base.now_in_file();
        let rows = self.base.read(Part::Orchestrator, statement!("webhooks/next_due"), now).await?;
        rows.first().map_or(Ok(None), |row| row.optional_time(0))
    }

    /// Decides for as long as it is polled. Whoever ingests, requeues or reports in this process wakes it; what others do
    /// is found within a second.
    pub async fn run(&self, observer: &dyn Observer) {
        match self.base.side(Part::Orchestrator) {
            // Nobody's first attempt waits for what came of others'.
            Ok(Side::Postgres(_)) => {
                tokio::join!(self.keep(Share::Results, observer), self.keep(Share::Attempts, observer));
            }
            // One transaction at a time is all that a file takes: one for both costs least.
            Ok(Side::Sqlite(_)) | Err(_) => self.keep(Share::Everything, observer).await,
        }
    }

    async fn keep(&self, share: Share, observer: &dyn Observer) {
        let pace = self.base.pace();
        loop {
            let began = Instant::now();
            let settled = self.settle_share(share, observer).await;
            pace.record(began);
            let mut woken = std::pin::pin!(self.woken(share));
            // Where there is more to decide at once, nobody has to know when the next delivery is due.
            if settled.is_err() || futures::poll!(woken.as_mut()).is_pending() {
                let wait = match settled {
                    Ok(_) => self.wait(share).await,
                    Err(error) => Err(error),
                };
                let wait = wait.unwrap_or_else(|error| {
                    tracing::warn!(%error, "deliveries wait for the database");
                    STORE_RETRY
                });
                let _ = tokio::time::timeout(wait, woken).await;
            }
            tokio::time::sleep_until(pace.next(began)).await;
        }
    }

    /// How long nothing is to be decided, unless somebody says so.
    async fn wait(&self, share: Share) -> Result<Duration, store::Error> {
        if share == Share::Results {
            return Ok(TICK);
        }
        let due = self.next_due().await?;
        Ok(due.map_or(TICK, |due| due.since(self.base.now()).clamp(SHORTEST_WAIT, TICK)))
    }

    /// Waits until somebody leaves something to decide.
    async fn woken(&self, share: Share) {
        let (waiting, reported) = (self.base.waiting.notified(), self.base.reported.notified());
        match share {
            Share::Results => reported.await,
            Share::Attempts => waiting.await,
            Share::Everything => tokio::select! {
                () = waiting => {}
                () = reported => {}
            },
        }
    }
}

/// Which of those that wait are decided about.
enum Picked {
    All,
    /// Those of these numbers.
    These(HashSet<i64>),
    None,
}

impl Picked {
    fn these(only: Option<Vec<i64>>) -> Self {
        only.map_or(Self::All, |only| Self::These(only.into_iter().collect()))
    }

    fn has(&self, id: i64) -> bool {
        match self {
            Self::All => true,
            Self::These(ids) => ids.contains(&id),
            Self::None => false,
        }
    }
}

/// What one of those who decide sees to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Everything,
    /// What came of attempts.
    Results,
    /// Deliveries that wait for an attempt.
    Attempts,
}

/// A delivery as it was read, and how often it may be attempted.
struct Read {
    id: i64,
    lane: i64,
    delivery: Delivery,
    limits: Limits,
}

/// A subscription's policy: its own, or the configured default at the time of the decision.
struct Limits {
    max_retry_limit: u32,
    base_delay: Duration,
    max_delay: Duration,
    is_deleted: bool,
}

impl Limits {
    fn policy(&self) -> Policy {
        Policy::exponential(self.max_retry_limit, self.base_delay, self.max_delay)
    }

    /// Nobody tries again for a subscription that is gone.
    fn policy_after_failure(&self) -> Policy {
        if self.is_deleted { Policy::exponential(0, self.base_delay, self.max_delay) } else { self.policy() }
    }
}

/// What came of a job.
struct Reported {
    job: i64,
    error_code: Option<String>,
    retry_after: Option<Duration>,
}

impl Read {
    /// What the delivery becomes by a result; nothing when it has counted before.
    fn after(&self, reported: Reported, now: Timestamp) -> Option<Delivery> {
        let Reported { job, error_code, retry_after } = reported;
        let outcome = error_code.map_or(Outcome::Arrived, |code| Outcome::Failed { code, retry_after });
        let input = Input::Reported { job, outcome };
        self.decided(input, &self.limits.policy_after_failure(), now)
    }

    /// What the delivery becomes when its next attempt is looked for; nothing when none may begin.
    fn woken(&self, job: i64, now: Timestamp) -> Option<Delivery> {
        self.decided(Input::Wake { job }, &self.limits.policy(), now)
    }

    fn decided(&self, input: Input, policy: &Policy, now: Timestamp) -> Option<Delivery> {
        let seed = self.id.unsigned_abs();
        match delivery::decide(&self.delivery, input, policy, seed, now) {
            Ok(next) => Some(next),
            Err(why) => {
                tracing::debug!(delivery = self.id, %why, "nothing changed");
                None
            }
        }
    }

    /// The newest job as the table has it.
    fn newest_job(&self) -> Option<i64> {
        (self.delivery.job != 0).then_some(self.delivery.job)
    }
}

impl Progress {
    /// Both together.
    fn and(self, other: Self) -> Self {
        Self {
            begun: self.begun + other.begun,
            applied: self.applied + other.applied,
            ignored: self.ignored + other.ignored,
            completed: self.completed + other.completed,
            dead_lettered: self.dead_lettered + other.dead_lettered,
            more: self.more || other.more,
        }
    }

    /// What a delivery has become.
    fn count(&mut self, status: Status) {
        match status {
            Status::InProgress => self.begun += 1,
            Status::Completed => self.completed += 1,
            Status::DeadLettered => self.dead_lettered += 1,
            Status::Pending | Status::PendingRetry => {}
        }
    }
}

/// What a batch came to; one of which something is parked may have left others.
fn progress(batch: PickedBatch<Progress, store::Error>) -> Result<Progress, store::Error> {
    let more = batch.parked > 0;
    let progress = batch.whole()?.into_iter().fold(Progress::default(), Progress::and);
    Ok(Progress { more: progress.more || more, ..progress })
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}
