//! Leases what waits, lane by lane, as far as there is a place for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch::clock::Clock;
use tokio::time::Instant;

use super::call::{Call, Uncallable};
use super::crew::Crew;
use super::error::Error;
use super::jobs::{Ask, Expired, Jobs, Lane, Leased, Sent};
use super::lanes::{Lanes, Limits, Place, Rate, Why};
use super::vault::Vault;

/// Lanes looked at with one question.
const PAGE: usize = 500;
/// A lease outlives its request by this much: time to report what came of it.
const TO_REPORT: Duration = Duration::from_secs(10);
/// And by no more than this without a word: a worker that is lost takes its endpoint's place with it until then.
const LONGEST_TO_REPORT: Duration = Duration::from_secs(300);
/// How endpoints are called is forgotten when more than this are known.
const MANY_CALLS: usize = 10_000;
/// How often the log repeats that an endpoint cannot be called.
const COMPLAINED_EVERY: Duration = Duration::from_secs(60);

/// Hands out attempts: to the workers of this process, and to those outside. Both hold themselves to the same limits, and to
/// this node's part of them.
pub struct Dispatch {
    pub(super) jobs: Arc<Jobs>,
    pub(super) crew: Arc<Crew>,
    pub(super) lanes: Lanes,
    pub(super) clock: Arc<dyn Clock>,
    vault: Vault,
    /// The lane that was served last: the next one is first when there is something to give again.
    served: Mutex<i64>,
    /// When it was last said that a lane cannot be called.
    complained: Mutex<HashMap<i64, Instant>>,
    /// How endpoints are called, as long as nobody changes them.
    calls: Mutex<HashMap<i64, Arc<Call>>>,
}

/// An attempt that somebody is to make.
pub(super) struct Dispatched {
    pub(super) call: Arc<Call>,
    pub(super) leased: Leased,
    pub(super) place: Place,
    /// Until then it is nobody else's, by the clock of this process.
    pub(super) ours_until: Instant,
}

impl Dispatched {
    /// Whether the request will be over before the lease is. The answer to the question for it may have taken long.
    pub(super) fn is_in_time(&self) -> bool {
        Instant::now() + self.call.lane().timeout <= self.ours_until
    }
}

/// A delivery that some node has handed out.
pub(super) struct HandedOut {
    pub(super) lane: i64,
    /// How long its request may take.
    pub(super) timeout: Duration,
    /// What was to be sent; nothing where the subscription may have been another at that time.
    pub(super) sent: Option<Sent>,
}

/// Which lanes to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All in which something waits, beginning after the one that was served last.
    All,
    /// Those of these in which something waits.
    These(Vec<i64>),
}

/// How much to lease, and for whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) most: usize,
    /// Each is leased for so long, as far as that suits its request.
    pub(super) lease: Duration,
    pub(super) by: By,
}

/// Who makes the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// This process: what it has under way ends with it.
    Itself,
    /// Workers outside, who have what they got although this process ends.
    Workers,
}

/// What one look gave.
#[derive(Default)]
pub(super) struct Found {
    pub(super) work: Vec<Dispatched>,
    /// A lane gave all that it was asked for, and may have more.
    pub(super) more: bool,
    /// When the first of the lanes opens that are closed now.
    pub(super) opens_at: Option<Instant>,
    /// Lanes that gave something, or only had no room.
    pub(super) busy: Vec<i64>,
    /// There was room enough to look at all that were asked for.
    pub(super) complete: bool,
    /// How many lanes were looked at, those included that nobody may call and those that are other nodes'.
    pub(super) seen: usize,
}

impl Dispatch {
    /// Hands out these jobs as one of this crew, within the limits of these lanes, signed with the secrets of this vault.
    #[must_use]
    pub fn new(jobs: Arc<Jobs>, crew: Arc<Crew>, lanes: Lanes, vault: Vault, clock: Arc<dyn Clock>) -> Self {
        Self {
            jobs,
            crew,
            lanes,
            vault,
            clock,
            served: Mutex::default(),
            complained: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// Leaves everything to the other nodes: nothing more is handed out here for now.
    pub async fn leave(&self) {
        self.crew.leave().await;
    }

    /// How an endpoint is called.
    pub(super) fn call(&self, lane: Lane) -> Result<Arc<Call>, Uncallable> {
        let mut calls = held(&self.calls);
        if let Some(call) = calls.get(&lane.id)
            && call.lane().updated_at == lane.updated_at
        {
            return Ok(call.clone());
        }
        if calls.len() >= MANY_CALLS {
            calls.clear();
        }
        let (id, call) = (lane.id, Arc::new(Call::of(lane, &self.vault)?));
        calls.insert(id, call.clone());
        Ok(call)
    }

    /// What is known of a delivery that another node has handed out, or this one in another life.
    pub(super) async fn handed_out(&self, job: i64) -> Result<Option<HandedOut>, Error> {
        let Some((lane, is_as_then)) = self.jobs.lane_of(job).await? else { return Ok(None) };
        let (id, timeout) = (lane.id, lane.timeout);
        let call = if is_as_then { self.call(lane).ok() } else { None };
        Ok(Some(HandedOut { lane: id, timeout, sent: call.map(|call| call.sent().clone()) }))
    }

    /// Puts back what nobody came back for.
    pub(super) async fn expire(&self) -> Result<(), Error> {
        if self.jobs.expire().await? != Expired::default() {
            self.crew.look_again();
        }
        Ok(())
    }

    /// Gives back what came too late to be made. Nothing was sent, so it costs no attempt and no lease.
    pub(super) async fn give_back(&self, late: Dispatched) {
        let Leased { job, token, .. } = late.leased;
        match self.jobs.give_back(job, token).await {
            Ok(_) => tracing::warn!(job, "the database took so long to hand it out that it is given back"),
            Err(error) => tracing::warn!(job, %error, "it came too late, and waits until its lease is over"),
        }
    }

    /// Leases what is wanted from these lanes.
    pub(super) async fn lease(&self, which: &Which, wanted: Wanted) -> Result<Found, Error> {
        self.crew.show_up().await?;
        let mut found = Found::default();
        let looked = match which {
            Which::All => self.look_at_all(wanted, &mut found).await,
            Which::These(lanes) => self.look_at(lanes, wanted, &mut found).await,
        };
        match looked {
            // What is leased is made all the same.
            Err(error) if !found.work.is_empty() => {
                tracing::warn!(%error, "not all lanes could be looked at: they are with the next look");
                found.more = true;
            }
            looked => looked?,
        }
        Ok(found)
    }

    async fn look_at_all(&self, wanted: Wanted, found: &mut Found) -> Result<(), Error> {
        let begun_after = *held(&self.served);
        let (mut after, mut wrapped) = (begun_after, begun_after == 0);
        while found.work.len() < wanted.most && self.lanes.free() > 0 {
            // Of very many lanes the parts may have changed since the first.
            self.crew.show_up().await?;
            let mut page = self.jobs.lanes(after, PAGE).await?;
            if wrapped && begun_after > 0 {
                // The others had their turn.
                page.open.retain(|lane| lane.id <= begun_after);
                page.disabled.retain(|lane| *lane <= begun_after);
            }
            found.seen += page.disabled.len();
            for lane in page.deleted {
                found.more |= self.jobs.close_lane(lane).await? > 0;
            }
            if let Some(served) = self.lease_page(page.open, wanted, found).await? {
                *held(&self.served) = served;
            }
            after = match page.next {
                Some(next) if !wrapped || next < begun_after || begun_after == 0 => next,
                None if !wrapped => {
                    wrapped = true;
                    0
                }
                _ => {
                    found.complete = true;
                    break;
                }
            };
        }
        Ok(())
    }

    async fn look_at(&self, lanes: &[i64], wanted: Wanted, found: &mut Found) -> Result<(), Error> {
        if self.lanes.free() > 0 {
            let chosen = self.jobs.chosen_lanes(lanes).await?;
            found.seen += chosen.disabled.len();
            self.lease_page(chosen.open, wanted, found).await?;
            found.complete = true;
        }
        Ok(())
    }

    /// Leases from the lanes of a page, and says which was the last that got its turn.
    async fn lease_page(
        &self,
        page: Vec<Lane>,
        Wanted { most, lease, by }: Wanted,
        found: &mut Found,
    ) -> Result<Option<i64>, Error> {
        let wanted = most - found.work.len();
        found.seen += page.len();
        let ours = page.into_iter().filter_map(|lane| Some((self.limits_of(&lane)?, lane)));
        let ours: Vec<_> = ours.collect();
        let open = ours.into_iter().filter(|(limits, lane)| self.may_enter(lane, limits, found));
        let open: Vec<_> = open.collect();
        // Places are taken before it is known how much waits: no lane takes so many that the others of the page get none.
        let share = (self.lanes.free().min(wanted) / open.len().max(1)).max(1);
        let mut held_places = HashMap::new();
        let (mut asks, mut taken, mut served) = (Vec::new(), 0, None);
        for (limits, lane) in open {
            if taken >= wanted {
                found.more = true;
                found.busy.push(lane.id);
                continue;
            }
            let (id, timeout, as_of) = (lane.id, lane.timeout, lane.updated_at);
            let places = self.places(id, &limits, share.min(wanted - taken), found);
            if places.is_empty() {
                self.look_again_soon(id, found);
                continue;
            }
            let call = match self.call(lane) {
                Ok(call) => call,
                Err(why) => {
                    self.complain(id, &why);
                    continue;
                }
            };
            taken += places.len();
            let lease = lease_for(timeout, lease);
            asks.push(Ask { lane: id, most: places.len(), lease, as_of });
            held_places.insert(id, (call, places, Instant::now() + lease));
            served = Some(id);
        }
        let leased = match by {
            By::Itself => self.jobs.lease(&asks).await?,
            By::Workers => self.jobs.hand_out(&asks, self.crew.id()).await?,
        };
        for leased in leased {
            let Some((call, places, ours_until)) = held_places.get_mut(&leased.lane) else { continue };
            let Some(place) = places.pop() else { continue };
            found.work.push(Dispatched { call: call.clone(), leased, place, ours_until: *ours_until });
        }
        for ask in &asks {
            let left = held_places.get(&ask.lane).map_or(0, |(_, places, _)| places.len());
            found.more |= left == 0;
            if left < ask.most {
                found.busy.push(ask.lane);
            }
        }
        Ok(served)
    }

    /// What a lane may have from here; nothing where it is the other nodes' alone. It is then passed over until the next
    /// look, which comes by itself.
    fn limits_of(&self, lane: &Lane) -> Option<Limits> {
        let rate = lane.rate_limit.and_then(std::num::NonZeroU32::new);
        let whole = Limits {
            concurrency: usize::try_from(lane.max_concurrency).unwrap_or(usize::MAX),
            rate: rate.map(|requests| Rate { requests, every: Duration::from_secs(1) }),
        };
        self.crew.part(lane.id, &whole)
    }

    /// Whether a lane could take a request now. Those that could not are no reason to give the others less.
    fn may_enter(&self, lane: &Lane, limits: &Limits, found: &mut Found) -> bool {
        self.lanes.as_of(lane.id, lane.updated_at);
        if self.lanes.room(lane.id, limits) > 0 {
            return true;
        }
        let closed = self.lanes.closed(lane.id);
        if closed.is_none_or(|wait| wait.why == Why::Paced) {
            self.look_again_soon(lane.id, found);
        }
        let opens_at = closed.and_then(|wait| wait.until);
        found.opens_at = found.opens_at.into_iter().chain(opens_at).min();
        false
    }

    /// A lane whose endpoint works has room again soon. Nobody knows when one has that does not answer.
    fn look_again_soon(&self, id: i64, found: &mut Found) {
        if self.lanes.is_proven(id) {
            found.busy.push(id);
        }
    }

    /// Up to so many places in a lane.
    fn places(&self, id: i64, limits: &Limits, most: usize, found: &mut Found) -> Vec<Place> {
        let mut places = Vec::new();
        while places.len() < most {
            match self.lanes.enter(id, limits) {
                Ok(place) => places.push(place),
                Err(wait) => {
                    found.opens_at = found.opens_at.into_iter().chain(wait.until).min();
                    break;
                }
            }
        }
        places
    }

    /// Nothing is sent to an endpoint that cannot be called; somebody should know.
    fn complain(&self, subscription: i64, why: &Uncallable) {
        let now = Instant::now();
        let mut complained = held(&self.complained);
        complained.retain(|_, at| now.duration_since(*at) < COMPLAINED_EVERY);
        if let Entry::Vacant(silent) = complained.entry(subscription) {
            silent.insert(now);
            tracing::error!(subscription, %why, "its deliveries wait: the endpoint cannot be called");
        }
    }
}

/// How long an attempt is leased whose request may take so long, if so much is asked for.
pub(super) fn lease_for(timeout: Duration, asked: Duration) -> Duration {
    asked.clamp(timeout + TO_REPORT, timeout + LONGEST_TO_REPORT)
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use backstitch::clock::SystemClock;
    use backstitch::store::sqlite::SqliteStore;
    use backstitch::{Engine, Options, Payload};

    use super::*;
    use crate::randomness::SystemRandomness;
    use crate::webhooks::egress::Egress;
    use crate::webhooks::{NewEvent, Registrar, SCHEMA, Terms, Webhooks, crew, lanes};

    #[tokio::test]
    async fn lanes_that_nobody_may_call_are_counted_among_those_that_were_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("hooks.db"), Arc::new(SystemClock));
        let store = SqliteStore::open_with(&path, clock.clone(), &[&SCHEMA]).unwrap();
        let engine = Engine::on_store(Arc::new(store), Options::default()).await.unwrap();
        let webhooks = Webhooks::open(&engine).await.unwrap();
        let vault = Vault::new(&[7; 32]).unwrap();
        let subscriptions = webhooks.subscriptions.clone();
        let registrar =
            Registrar::new(subscriptions, Egress::default(), vault.clone(), Arc::new(SystemRandomness));
        let terms = Terms::to("https://example.com/hooks", vec!["*".to_owned()]);
        let mut ids = Vec::new();
        for is_open in [false, true, false] {
            let (made, _) = registrar.create(&terms, &[], None).await.unwrap();
            ids.push(made.id);
            if !is_open {
                webhooks.subscriptions.disable(made.id, "no more").await.unwrap();
            }
        }
        let payload = Payload::parse("{}").unwrap();
        let event = NewEvent { id: None, kind: "order.created".to_owned(), payload };
        assert_eq!(webhooks.ingest.accept(event).await.unwrap().deliveries, 3);
        webhooks.orchestrator.settle().await.unwrap();
        let crew = Arc::new(Crew::of(&webhooks.jobs, crew::Settings::default()));
        let lanes = Lanes::new(lanes::Settings::default());
        let dispatch = Dispatch::new(webhooks.jobs.clone(), crew, lanes, vault, clock);
        let wanted = Wanted { most: 10, lease: Duration::ZERO, by: By::Itself };
        let found = dispatch.lease(&Which::All, wanted).await.unwrap();
        assert_eq!((found.seen, found.busy, found.work.len()), (3, vec![ids[1]], 1));
        let found = dispatch.lease(&Which::All, wanted).await.unwrap();
        assert_eq!((found.seen, found.complete), (2, true), "each once, wherever the look began");
        let found = dispatch.lease(&Which::These(ids), wanted).await.unwrap();
        assert_eq!((found.seen, found.work.len()), (2, 0));
        engine.shutdown().await.unwrap();
    }
}
