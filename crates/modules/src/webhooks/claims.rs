//! How deliveries are claimed: by endpoint, within this node's share of its limits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::delivery::limiter::{Limits, Rate};
use backstitch::delivery::{self, AttemptTimes, ClaimPolicy, LeaseBatch, PartitionPage};
use tokio::time::Instant;

use super::call::{Call, Uncallable};
use super::error::Error;
use super::jobs::{Ask, Jobs, Lane, Lanes, Leased};
use super::membership::Membership;
use super::vault::Vault;

/// Endpoints of one page.
const PAGE: usize = 500;
/// A lease outlives its request by this much: time to report the result.
const TO_REPORT: Duration = Duration::from_secs(10);
/// And by no more than this without an extension: a worker that is lost takes its endpoint's place with it until then.
const LONGEST_TO_REPORT: Duration = Duration::from_secs(300);
/// How endpoints are called is forgotten when more than this are known.
const MANY_CALLS: usize = 10_000;
/// How often the log repeats that an endpoint cannot be called.
const COMPLAINED_EVERY: Duration = Duration::from_secs(60);

/// Who makes the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimant {
    /// This process: its attempts end with it.
    ThisProcess,
    /// Outside workers, who keep their leases when this process ends. They ask for leases of this length.
    OutsideWorkers(Duration),
}

/// Claims deliveries by endpoint.
pub(super) struct WebhookClaims {
    pub(super) jobs: Arc<Jobs>,
    pub(super) membership: Arc<Membership>,
    pub(super) vault: Vault,
    /// When the log last said that an endpoint cannot be called.
    complained: Mutex<HashMap<i64, Instant>>,
    /// How endpoints are called, until they change.
    calls: Mutex<HashMap<i64, Arc<Call>>>,
}

impl WebhookClaims {
    pub(super) fn new(jobs: Arc<Jobs>, membership: Arc<Membership>, vault: Vault) -> Self {
        Self { jobs, membership, vault, complained: Mutex::default(), calls: Mutex::default() }
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

    /// Nothing is sent to an endpoint that cannot be called; an operator has to know.
    fn complain(&self, subscription: i64, why: &Uncallable) {
        let now = Instant::now();
        let mut complained = held(&self.complained);
        complained.retain(|_, at| now.duration_since(*at) < COMPLAINED_EVERY);
        if let Entry::Vacant(silent) = complained.entry(subscription) {
            silent.insert(now);
            tracing::error!(subscription, %why, "webhook endpoint cannot be called; its deliveries wait");
        }
    }
}

impl ClaimPolicy for WebhookClaims {
    type Key = i64;
    type Partition = Lane;
    type Route = Call;
    type Item = Leased;
    type Claimant = Claimant;
    type Error = Error;

    async fn prepare(&self) -> Result<(), Error> {
        Ok(self.membership.heartbeat().await?)
    }

    async fn page(&self, after: Option<&i64>) -> Result<PartitionPage<i64, Lane>, Error> {
        let Lanes { open, disabled, deleted, next } =
            self.jobs.lanes(after.copied().unwrap_or_default(), PAGE).await?;
        let mut more = false;
        for lane in deleted {
            more |= self.jobs.close_lane(lane).await? > 0;
        }
        Ok(PartitionPage { open, closed: disabled, next, is_whole: false, more, next_due: None })
    }

    async fn chosen(&self, keys: &[i64]) -> Result<PartitionPage<i64, Lane>, Error> {
        let Lanes { open, disabled, .. } = self.jobs.chosen_lanes(keys).await?;
        let (next, next_due) = (None, None);
        Ok(PartitionPage { open, closed: disabled, next, is_whole: true, more: false, next_due })
    }

    fn key(&self, lane: &Lane) -> i64 {
        lane.id
    }

    fn changed_at(&self, lane: &Lane) -> Option<Timestamp> {
        Some(lane.updated_at)
    }

    fn limits(&self, lane: &Lane) -> Option<Limits> {
        let rate = lane.rate_limit.and_then(NonZeroU32::new);
        let whole = Limits {
            concurrency: usize::try_from(lane.max_concurrency).unwrap_or(usize::MAX),
            rate: rate.map(|requests| Rate { requests, every: Duration::from_secs(1) }),
        };
        self.membership.share(&lane.id, &whole)
    }

    fn route(&self, lane: Lane) -> Option<Arc<Call>> {
        let id = lane.id;
        self.call(lane).inspect_err(|why| self.complain(id, why)).ok()
    }

    fn times(&self, call: &Call, claimant: Claimant) -> AttemptTimes {
        let timeout = call.lane().timeout;
        let asked = match claimant {
            Claimant::ThisProcess => Duration::ZERO,
            Claimant::OutsideWorkers(lease) => lease,
        };
        AttemptTimes { timeout, lease: lease_for(timeout, asked) }
    }

    async fn lease(
        &self,
        asks: &[delivery::Ask<Self>],
        claimant: Claimant,
    ) -> Result<LeaseBatch<i64, Leased>, Error> {
        let of_job = |ask: &delivery::Ask<Self>| {
            let as_of = ask.route.lane().updated_at;
            Ask { lane: ask.partition, most: ask.most, lease: ask.lease, as_of }
        };
        let asked: Vec<Ask> = asks.iter().map(of_job).collect();
        let leased = match claimant {
            Claimant::ThisProcess => self.jobs.lease(&asked).await?,
            Claimant::OutsideWorkers(_) => self.jobs.hand_out(&asked, self.membership.id()).await?,
        };
        let mut counts: HashMap<i64, usize> = HashMap::new();
        for leased in &leased {
            *counts.entry(leased.lane).or_default() += 1;
        }
        let more = asks.iter().any(|ask| counts.get(&ask.partition) == Some(&ask.most));
        let items = leased.into_iter().map(|leased| (leased.lane, leased)).collect();
        Ok(LeaseBatch { items, more, again_at: None })
    }
}

/// How long an attempt is leased whose request may take so long, if so much is asked for.
pub(super) fn lease_for(timeout: Duration, asked: Duration) -> Duration {
    asked.clamp(timeout + TO_REPORT, timeout + LONGEST_TO_REPORT)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
