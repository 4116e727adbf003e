//! Performs the actions of states: from the state found, to the next one that waits for somebody else.
//!
//! An action belongs to whoever has claimed it, for as long as the claim is renewed. What a process held that went away is
//! claimed by another one; whatever the first one still says is late then, told by the claim's number.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use backstitch::group_commit::NotWritten;
use backstitch::kernel::lifecycle::{Input, Refused};
use backstitch::store::isolation::{Isolable as _, PickedBatch, isolate_picked};
use backstitch::store::parked::{claimed, park, park_item};
use backstitch::{ErrorKind, Payload, Performer, SagaId, StepError, store};
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::base::{Base, Side};
use super::batch::{Ask, Held, NotMoved};
use super::claim::Claim;
use super::errand::{Calls, Errand};
use super::holding::Holding;
use super::parked::ACTIONS;
use super::retention::listed;
use super::standing::Standing;
use super::writer::Writer;
use super::{looking, on_file, on_server};
use crate::question::{Statement, statement};

const NEXT_DUE: Statement = statement!("lifecycles/next_due");

/// How often is looked for what others left, or made due.
const TICK: Duration = Duration::from_secs(1);
/// How soon is looked for what is due when an action has ended.
const SOON: Duration = Duration::from_millis(10);
/// How long is waited after a store that did not answer.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// How often is looked whether everything has ended.
const LAST_LOOKS: Duration = Duration::from_millis(5);
/// After so many processes went away while they performed an action, it has failed.
const MOST_INTERRUPTIONS: u32 = 5;
/// Actions that are claimed together.
const CLAIMED_AT_ONCE: usize = 128;

/// How actions are performed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Actions performed at once.
    pub concurrency: usize,
    /// A process that is not heard of for so long has its actions taken over.
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { concurrency: 256, lease: Duration::from_secs(10) }
    }
}

/// Performs actions for as long as it runs.
pub(super) struct Driver {
    base: Arc<Base>,
    writer: Arc<Writer>,
    calls: Arc<dyn Calls>,
    lease: Duration,
    concurrency: usize,
    pub(super) holding: Arc<Holding>,
}

/// What a look has found.
#[derive(Default)]
struct Found {
    held: Vec<Held>,
    /// How long to wait before the next one.
    wait: Duration,
}

impl Found {
    fn nothing(wait: Duration) -> Self {
        Self { held: Vec::new(), wait }
    }
}

impl Driver {
    pub(super) fn new(
        base: Arc<Base>,
        writer: Arc<Writer>,
        calls: Arc<dyn Calls>,
        settings: &Settings,
    ) -> Self {
        let Settings { concurrency, lease } = *settings;
        Self { holding: Arc::new(Holding::new(base.clone(), lease)), base, writer, calls, lease, concurrency }
    }

    /// Performs what is due, and what it is handed, until `closing`; then it waits for what is under way.
    pub(super) async fn run(
        self: Arc<Self>,
        mut handed: mpsc::UnboundedReceiver<Held>,
        closing: impl Future<Output = ()>,
    ) {
        let mut closing = std::pin::pin!(closing);
        tokio::select! {
            biased;
            () = &mut closing => return,
            () = self.take_over() => {}
        }
        self.base.seats.open(self.concurrency);
        let mut under_way = JoinSet::new();
        // Both end with this, also where somebody gives it up.
        let (mut renewing, mut looking) = (JoinSet::new(), JoinSet::new());
        renewing.spawn(self.holding.clone().keep_renewing());
        let mut look_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = &mut closing => break,
                Some(held) = handed.recv() => self.begin(held, &mut under_way),
                Some(_) = under_way.join_next() => {
                    // There is room again, and another attempt may be due soon. Many that end together are one reason to look.
                    look_at = look_at.min(Instant::now() + SOON);
                }
                Some(looked) = looking.join_next() => {
                    let Found { held, wait } = looked.unwrap_or_default();
                    for held in held {
                        self.begin(held, &mut under_way);
                    }
                    look_at = Instant::now() + wait;
                }
                () = tokio::time::sleep_until(look_at), if looking.is_empty() => {
                    // Beside everything else: a database that takes its time holds nobody up.
                    looking.spawn(self.clone().look());
                }
            }
        }
        self.base.seats.close();
        // Whoever decides at this moment may still hand something over: it does so before its place is free.
        while !self.base.seats.are_all_free() || !under_way.is_empty() || !looking.is_empty() {
            tokio::select! {
                Some(held) = handed.recv() => self.holding.hold(&held),
                Some(_) = under_way.join_next() => {}
                Some(looked) = looking.join_next() => {
                    looked.unwrap_or_default().held.iter().for_each(|held| self.holding.hold(held));
                }
                () = tokio::time::sleep(LAST_LOOKS) => {}
            }
        }
        renewing.abort_all();
        self.holding.let_all_go().await;
    }

    /// Claims what is due, as far as there is room.
    async fn look(self: Arc<Self>) -> Found {
        let room = self.base.seats.free();
        if room == 0 {
            return Found::nothing(TICK);
        }
        // To claim is to write, and whoever writes to a file keeps others waiting: not where there is nothing.
        if !self.base.is_shared() {
            let wait = self.until_next().await;
            if !wait.is_zero() {
                return Found::nothing(wait);
            }
        }
        let since = Instant::now();
        let claimed = match self.claim(room.min(CLAIMED_AT_ONCE)).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "actions of lifecycles cannot be looked for");
                return Found::nothing(STORE_RETRY);
            }
        };
        let found = claimed.len();
        let (mut held, mut left) = (Vec::with_capacity(found), Vec::new());
        for standing in claimed {
            match (self.machine_of(&standing).await, self.base.seats.take(&standing.machine)) {
                (Ok(machine), Some(seat)) => held.push(Held { standing, machine, seat, since }),
                (Ok(_), None) => left.push((standing.id, standing.instance.token)),
                (Err(error), _) => {
                    tracing::error!(id = %standing.id, %error, "the machine cannot be read");
                    left.push((standing.id, standing.instance.token));
                }
            }
        }
        // Others may have room for it; it is not met again at once.
        self.holding.let_go(left, TICK).await;
        let wait = match found {
            0 => self.until_next().await.max(SOON),
            _ => Duration::ZERO,
        };
        Found { held, wait }
    }

    async fn machine_of(
        &self,
        standing: &Standing,
    ) -> Result<Arc<backstitch::kernel::lifecycle::Machine>, super::Error> {
        super::Machines::on(self.base.clone(), self.calls.clone())
            .machine(&standing.machine, standing.version)
            .await
    }

    async fn claim(&self, limit: usize) -> Result<Vec<Standing>, store::Error> {
        let ask = Claim { limit, held: self.holding.ids(), but: self.base.seats.full_machines(), only: None };
        let batch = isolate_picked(
            || self.due(&ask),
            |only| self.claim_those(Claim { only, ..ask.clone() }),
            |id: SagaId, reason| park_item(&**self.base.store(), ACTIONS, id, reason),
        );
        claimed(ACTIONS, batch.await?)
    }

    async fn claim_those(&self, ask: Claim) -> Result<Vec<Standing>, store::Error> {
        match self.base.side()? {
            Side::Sqlite(file) => {
                let (node, lease, now) = (self.base.node.clone(), self.lease, self.base.now());
                file.write_product(move |transaction| on_file::claim(transaction, &node, lease, &ask, now))
                    .await
            }
            Side::Postgres(server, _) => on_server::claim(server, &self.base.node, self.lease, &ask).await,
        }
    }

    /// The instances that a claim picks.
    async fn due(&self, ask: &Claim) -> Result<Vec<SagaId>, store::Error> {
        let (now, values) = self.base.clock_in_sql();
        let id = if self.base.is_shared() { "cast(id as text)" } else { "hex(id)" };
        let full: Vec<String> =
            ask.but.iter().map(|name| format!("'{}'", name.replace('\'', "''"))).collect();
        let full = if full.is_empty() { "''".to_owned() } else { full.join(", ") };
        // Held instances are left out below: they may be many.
        let limit = ask.limit + ask.held.len();
        let sql = format!(
            "select id from lifecycles
             where due_at <= {now} and machine not in ({full})
                 and lower(replace({id}, '-', '')) not in (
                     select lower(replace(item, '-', '')) from parked_items
                     where area = '{ACTIONS}' and retry_at > {now}
                 )
             order by due_at
             limit {limit}"
        );
        let rows = self.base.read_text(sql, values).await?;
        let due: Vec<SagaId> = rows.iter().map(|row| row.id(0)).collect::<Result<_, _>>()?;
        Ok(due.into_iter().filter(|id| !ask.held.contains(id)).take(ask.limit).collect())
    }

    /// Leaves an action alone for a while whose answer the database rejects. What comes then performs it again.
    async fn park(&self, id: SagaId, token: u64, error: &store::Error) {
        if let Err(error) = park(&**self.base.store(), ACTIONS, &[(id, error)]).await {
            tracing::warn!(%id, %error, "an action whose answer is rejected cannot be parked");
        }
        self.holding.let_parked_go(id, token).await;
    }

    /// How long until something may be due.
    async fn until_next(&self) -> Duration {
        let values = if self.base.is_shared() {
            Vec::new()
        } else {
            vec![self.base.now().into(), listed(&self.holding.ids()).into()]
        };
        let micros = match self.base.read(NEXT_DUE, values).await {
            Ok(rows) => rows.first().and_then(|row| row.optional_integer(0).ok().flatten()),
            Err(_) => return STORE_RETRY,
        };
        micros
            .map_or(TICK, |micros| Duration::from_micros(u64::try_from(micros).unwrap_or_default()).min(TICK))
    }

    fn begin(self: &Arc<Self>, held: Held, under_way: &mut JoinSet<()>) {
        self.holding.hold(&held);
        let driver = self.clone();
        under_way.spawn(async move { driver.perform(held).await });
    }

    /// Performs one action and says what came of it, until that is on disk or nobody wants to know any more.
    async fn perform(&self, held: Held) {
        let Held { standing, machine, seat, .. } = held;
        let (id, token) = (standing.id, standing.instance.token);
        if machine.pause_expires(&standing.instance.state).is_some() {
            let expired = Input::PauseExpired { entry: standing.instance.entry };
            self.answer(&standing, expired, seat).await;
            return self.holding.drop_claim(id, token);
        }
        let Some(action) = machine.action(&standing.instance.state) else {
            return self.holding.drop_claim(id, token);
        };
        let (entry, attempt) = (standing.instance.entry, standing.instance.failures + 1);
        let outcome = match &action.performer {
            _ if standing.interruptions >= MOST_INTERRUPTIONS => Err(interrupted(standing.interruptions)),
            Some(Performer::Call(call)) => {
                if !self.holding.may_begin(id, token) {
                    return self.holding.drop_claim(id, token);
                }
                self.call(call, &standing, action.timeout).await
            }
            // The time of a worker is over, or the wait for one.
            Some(Performer::Worker { .. }) => {
                self.base.arriving.written_everywhere().await;
                self.answer(&standing, Input::WorkerTimedOut { entry, attempt, token }, seat).await;
                return self.holding.drop_claim(id, token);
            }
            Some(Performer::Code) | None => return self.holding.drop_claim(id, token),
        };
        let input = Input::Answered { entry, attempt, token: Some(token), outcome };
        self.answer(&standing, input, seat).await;
        self.holding.drop_claim(id, token);
    }

    async fn call(
        &self,
        call: &Payload,
        standing: &Standing,
        timeout: Duration,
    ) -> Result<Payload, StepError> {
        let results = looking::results(&self.base, standing.id).await;
        let results = results.map_err(|why| StepError::not_done(format!("its log cannot be read: {why}")))?;
        let errand = Errand::of(standing, results, timeout)?;
        let made = AssertUnwindSafe(self.calls.call(call, &errand)).catch_unwind();
        match tokio::time::timeout(timeout, made).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(StepError::new(ErrorKind::Panicked, "whoever made the call panicked")),
            Err(_) => {
                let told = format!("no answer within {}", backstitch_api::validate::shown_duration(timeout));
                Err(StepError::new(ErrorKind::TimedOut, told))
            }
        }
    }

    async fn answer(&self, standing: &Standing, input: Input, seat: super::seats::Seat) {
        let (id, token) = (standing.id, standing.instance.token);
        let mut replaced = false;
        let mut ask = Ask {
            machine: standing.machine.clone(),
            key: standing.key.clone(),
            input,
            after: None,
            id,
            job: None,
            seat: Some(seat),
        };
        loop {
            match self.writer.write(ask.clone()).await {
                Ok(Ok(_)) | Err(NotWritten::Closed) => return,
                Ok(Err(NotMoved::Refused { why: Refused::Late { state }, .. })) => {
                    tracing::info!(%id, %state, "an action's answer is not wanted any more");
                    return;
                }
                Ok(Err(why)) => {
                    tracing::error!(%id, ?why, "an action's answer is refused");
                    return;
                }
                // Whatever it is, it will not do next time either.
                Err(NotWritten::Store(error))
                    if matches!(*error, store::Error::Refused(_) | store::Error::Rejected(_)) =>
                {
                    tracing::error!(%id, %error, "an action's answer cannot be kept");
                    match &mut ask.input {
                        Input::Answered { outcome, .. } if !std::mem::replace(&mut replaced, true) => {
                            *outcome = Err(StepError::refused("what came of it cannot be kept"));
                            continue;
                        }
                        _ if error.is_about_an_item() => return self.park(id, token, &error).await,
                        _ => return,
                    }
                }
                Err(NotWritten::Store(error)) => {
                    tracing::warn!(%id, %error, "an action's answer cannot be written yet");
                }
            }
            // Whoever took it over performs it again.
            if !self.holding.still_ours(id, token) {
                return;
            }
            tokio::time::sleep(STORE_RETRY).await;
        }
    }

    /// Makes due what the process before this one held; on a server others may live, and their claims run out.
    async fn take_over(&self) {
        let Ok(Side::Sqlite(file)) = self.base.side() else { return };
        loop {
            let now = self.base.now();
            let taken_over = isolate_picked(
                || file.read_product(on_file::held),
                |only| {
                    file.write_product(move |transaction| {
                        on_file::take_over(transaction, only.as_deref(), now)
                    })
                },
                |id, reason| park_item(&**self.base.store(), ACTIONS, id, reason),
            );
            match taken_over.await.and_then(PickedBatch::whole) {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "actions that were under way cannot be taken up yet"),
            }
            tokio::time::sleep(STORE_RETRY).await;
        }
    }
}

/// It is not tried again: whatever it does may end the next process too.
fn interrupted(times: u32) -> StepError {
    StepError::refused(format!("{times} processes went away while they performed it"))
}
