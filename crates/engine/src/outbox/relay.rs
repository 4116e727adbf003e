//! Sends what the outbox holds, at least once each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::delivery;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::lane::{Finished, Lane};
use super::settling::{SETTLED_AT_ONCE, Settling};
use crate::runtime::Shared;
use crate::store;
use crate::store::outbox::{Expired, Outgoing, Share, TOO_LATE, Waiting};

/// Messages looked after at a time that nobody else looks after.
const RESCUED_AT_ONCE: usize = 1000;
/// When to look again after a look that found nothing to take although something was due, and how long after the last
/// rescue there is another where one is needed.
const SOON: Duration = Duration::from_millis(10);
/// Lanes that are kept though they have nothing to send. A pattern means any number of topics, and whoever publishes names
/// them.
const LANES_KEPT: usize = 256;
/// What the log says of a message whose topic goes nowhere from here.
const NO_ADAPTER: &str = "none";

/// Sends what is due, for as long as the engine runs, and lets what is on its way arrive.
pub(crate) async fn relay(shared: Arc<Shared>) {
    let _busy = shared.busy();
    tokio::select! {
        () = Relay::new(shared.clone()).run() => {}
        // What was being sent is taken for in doubt and sent again by the next life.
        () = shared.stopped() => {}
    }
}

/// Each topic has a lane of its own, so that a slow one holds up no other.
struct Relay {
    shared: Arc<Shared>,
    lanes: HashMap<String, Lane>,
    finished: mpsc::UnboundedSender<Finished>,
    ended: mpsc::UnboundedReceiver<Finished>,
    rescued: Option<Instant>,
    /// Something may be in the way that only a rescue removes.
    obstructed: bool,
    /// When to look even if nobody says that there is something.
    next_look: Instant,
}

impl Relay {
    fn new(shared: Arc<Shared>) -> Self {
        let (finished, ended) = mpsc::unbounded_channel();
        let (lanes, next_look) = (HashMap::new(), Instant::now());
        Self { shared, lanes, finished, ended, rescued: None, obstructed: false, next_look }
    }

    async fn run(mut self) {
        let mut settling = Settling::new(self.shared.clone());
        while !self.shared.is_stopping() {
            let has_room = !settling.is_full();
            let look = async { if has_room { self.look().await } else { Ok(()) } };
            // At the same time: a server hands out what is next while it takes in what is over.
            let (settled, looked) = tokio::join!(settling.settle(), look);
            if settled {
                // What was behind may go now.
                self.next_look = Instant::now();
            }
            if let Err(error) = looked {
                tracing::warn!(%error, "the outbox cannot be read");
                self.next_look = Instant::now() + self.shared.options.tick;
            }
            settling.add(self.some_over(&settling).await);
        }
        settling.settle().await;
        // What has not begun is given back, what has begun is over soon; then the lanes are gone.
        self.lanes.clear();
        let Self { mut ended, finished, .. } = self;
        drop(finished);
        loop {
            let mut rest = Vec::new();
            tokio::select! {
                count = ended.recv_many(&mut rest, SETTLED_AT_ONCE) => if count == 0 { break },
                () = settling.pause(), if settling.again_at().is_some() => {}
            }
            settling.add(rest);
            settling.settle().await;
        }
        settling.settle_all().await;
    }

    /// Takes what is due, as far as there is room in its lane.
    async fn look(&mut self) -> Result<(), store::Error> {
        if Instant::now() < self.next_look {
            return Ok(());
        }
        self.rescue_now_and_then().await?;
        if self.lanes.len() > LANES_KEPT {
            self.lanes.retain(|_, lane| !lane.is_idle());
        }
        let waiting = self.shared.store.waiting_topics().await?;
        self.next_look = self.look_again_for(&waiting);
        if self.obstructed {
            self.next_look = self.next_look.min(Instant::now() + SOON);
        }
        let due = waiting.iter().filter(|waiting| waiting.due_in.is_zero()).map(|waiting| &waiting.topic);
        let shares: Vec<Share> = due.filter_map(|topic| self.lane(topic)?.wants(topic)).collect();
        if shares.is_empty() {
            // A lane that is full is looked after when one of its sends has ended.
            return Ok(());
        }
        // The lease begins here, and so does the time of each send: it is over before anybody takes the message again.
        let since = Instant::now();
        let claimed = self.shared.store.claim_outbox(&shares, &self.shared.options.node).await?;
        self.next_look = Instant::now();
        if claimed.is_empty() {
            self.next_look += SOON;
        }
        let mut by_topic: HashMap<String, Vec<Outgoing>> = HashMap::new();
        for outgoing in claimed {
            if outgoing.uncounted {
                self.shared.options.observer.enqueued(&outgoing.message.topic, 1);
            }
            by_topic.entry(outgoing.message.topic.clone()).or_default().push(outgoing);
        }
        // What is due and not to be had is too old, or was behind others and is put aside now. A topic waits for the rescue
        // of its own, however much the others have to send.
        self.obstructed |= shares.iter().any(|share| !by_topic.contains_key(&share.topic));
        for (topic, claimed) in by_topic {
            if let Some(lane) = self.lanes.get_mut(&topic) {
                lane.send(claimed, since);
            }
        }
        Ok(())
    }

    fn look_again_for(&self, waiting: &[Waiting]) -> Instant {
        let later = waiting.iter().map(|topic| topic.due_in).filter(|wait| !wait.is_zero());
        let tick = self.shared.options.tick;
        Instant::now() + later.min().map_or(tick, |wait| wait.min(tick))
    }

    /// The lane of a topic; `None` when it goes nowhere from here.
    fn lane(&mut self, topic: &str) -> Option<&Lane> {
        if !self.lanes.contains_key(topic) {
            let route = self.shared.options.routes.of(topic)?;
            let lane = Lane::open(&self.shared, topic, route, self.finished.clone());
            self.lanes.insert(topic.to_owned(), lane);
        }
        self.lanes.get(topic)
    }

    /// What a sender took and never settled, and what is too old, is looked for first of all and then now and then.
    async fn rescue_now_and_then(&mut self) -> Result<(), store::Error> {
        let shortest = self.lanes.values().map(Lane::lease).min();
        let every = (shortest.unwrap_or(Duration::from_secs(60)) / 4).max(self.shared.options.tick);
        let every = if self.obstructed { SOON } else { every };
        if self.rescued.is_some_and(|at| at.elapsed() < every) {
            return Ok(());
        }
        self.rescued = Some(Instant::now());
        let rescued = self.shared.store.rescue_outbox(RESCUED_AT_ONCE).await?;
        // There may be more than there was room for.
        self.obstructed =
            rescued.expired.len() >= RESCUED_AT_ONCE || rescued.abandoned >= RESCUED_AT_ONCE as u64;
        let observer = &self.shared.options.observer;
        if rescued.abandoned > 0 {
            tracing::warn!(
                messages = rescued.abandoned,
                "messages whose sender never came back are sent again: their outcome is in doubt"
            );
            observer.taken_over(rescued.abandoned);
        }
        for expired in &rescued.expired {
            self.log_expired(expired);
            if expired.uncounted {
                observer.enqueued(&expired.topic, 1);
            }
        }
        if !rescued.expired.is_empty() {
            observer.expired(rescued.expired.len() as u64);
        }
        Ok(())
    }

    /// In the words of every other end of a message.
    fn log_expired(&self, expired: &Expired) {
        let Expired { topic, idempotency_key, attempts, .. } = expired;
        let route = self.shared.options.routes.of(topic);
        let adapter = route.as_ref().map_or(NO_ADAPTER, |route| route.sink.name());
        tracing::warn!(
            %topic, %idempotency_key, status = "aborted", attempts, adapter, last_error_code = delivery::EXPIRED,
            error = TOO_LATE, "outbox message not sent"
        );
    }

    /// Waits until something has been sent or there may be more to send; what is over by then.
    async fn some_over(&mut self, settling: &Settling) -> Vec<Finished> {
        let mut over = Vec::new();
        let until = match settling.again_at() {
            Some(again) if settling.is_full() => again,
            Some(again) => again.min(self.next_look),
            None => self.next_look,
        };
        let until = until.saturating_duration_since(Instant::now());
        tokio::select! {
            _ = self.ended.recv_many(&mut over, SETTLED_AT_ONCE) => {}
            was_woken = self.shared.outbox.wait(until) => {
                if was_woken {
                    self.next_look = Instant::now();
                }
            }
        }
        if !over.is_empty() {
            // There is room again.
            self.next_look = Instant::now();
        }
        for finished in over.iter().filter(|finished| finished.was_given_back()) {
            if let Some(lane) = self.lanes.get_mut(finished.topic()) {
                lane.slow_down();
            }
        }
        over
    }
}
