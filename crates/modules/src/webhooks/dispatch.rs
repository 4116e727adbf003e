//! Leases what waits, lane by lane, as far as there is a place for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstitch::clock::Clock;
use tokio::time::Instant;

use super::call::{Call, Uncallable};
use super::error::Error;
use super::jobs::{Jobs, Lane, Leased};
use super::lanes::{Lanes, Limits, Place, Rate};
use super::vault::Vault;

/// Lanes looked at with one question.
const PAGE: usize = 100;
/// How often the log repeats that an endpoint cannot be called.
const COMPLAINED_EVERY: Duration = Duration::from_secs(60);

/// Hands out attempts: to the workers of this process, and to those outside. Both hold themselves to the same limits.
pub struct Dispatch {
    pub(super) jobs: Arc<Jobs>,
    pub(super) lanes: Lanes,
    pub(super) clock: Arc<dyn Clock>,
    vault: Vault,
    /// The lane that was served last: the next one is first when there is something to give again.
    served: Mutex<i64>,
    /// When it was last said that a lane cannot be called.
    complained: Mutex<HashMap<i64, Instant>>,
}

/// An attempt that somebody is to make.
pub(super) struct Dispatched {
    pub(super) call: Arc<Call>,
    pub(super) leased: Leased,
    pub(super) place: Place,
}

/// What one look gave.
#[derive(Default)]
pub(super) struct Found {
    pub(super) work: Vec<Dispatched>,
    /// A lane gave all that it was asked for, and may have more.
    pub(super) more: bool,
    /// When the first of the lanes opens that are closed now.
    pub(super) opens_at: Option<Instant>,
}

/// How long work is leased for.
#[derive(Clone, Copy)]
pub(super) enum Term {
    /// For as long as its request may take, and this much more.
    RequestAnd(Duration),
    /// For this long.
    Exactly(Duration),
}

impl Dispatch {
    /// Hands out these jobs within the limits of these lanes, signed with the secrets of this vault.
    #[must_use]
    pub fn new(jobs: Arc<Jobs>, lanes: Lanes, vault: Vault, clock: Arc<dyn Clock>) -> Self {
        Self { jobs, lanes, vault, clock, served: Mutex::default(), complained: Mutex::default() }
    }

    /// Forgets what is known against an endpoint: it was changed, or switched on again.
    pub fn forgive(&self, subscription: i64) {
        self.lanes.forgive(subscription);
    }

    /// Reads how an endpoint is called.
    pub(super) fn call(&self, lane: Lane) -> Result<Call, Uncallable> {
        Call::of(lane, &self.vault, self.clock.now())
    }

    /// Leases up to so many, from all lanes in which something waits. What an error interrupts is left to its lease.
    pub(super) async fn lease(&self, most: usize, term: Term) -> Result<Found, Error> {
        let mut found = Found::default();
        let begun_after = *held(&self.served);
        let (mut after, mut wrapped) = (begun_after, begun_after == 0);
        while found.work.len() < most && self.lanes.free() > 0 {
            let page = self.jobs.lanes(after, PAGE).await?;
            for lane in page.deleted {
                self.jobs.close_lane(lane).await?;
            }
            self.lease_page(page.open, most, term, &mut found).await?;
            after = match page.next {
                Some(next) if wrapped && next >= begun_after && begun_after > 0 => break,
                Some(next) => next,
                None if wrapped => break,
                None => {
                    wrapped = true;
                    0
                }
            };
        }
        Ok(found)
    }

    async fn lease_page(
        &self,
        page: Vec<Lane>,
        most: usize,
        term: Term,
        found: &mut Found,
    ) -> Result<(), Error> {
        let wanted = most - found.work.len();
        // Places are taken before it is known how much waits: no lane takes so many that the others of the page get none.
        let share = (self.lanes.free().min(wanted) / page.len().max(1)).max(1);
        let mut held_places = HashMap::new();
        let (mut asked, mut longest, mut taken) = (Vec::new(), Duration::ZERO, 0);
        for lane in page {
            let (id, limits) = (lane.id, limits_of(&lane));
            if taken >= wanted {
                break;
            }
            let call = match self.call(lane) {
                Ok(call) => Arc::new(call),
                Err(why) => {
                    self.complain(id, &why);
                    continue;
                }
            };
            let places = self.places(id, &limits, share.min(wanted - taken), found);
            if places.is_empty() {
                continue;
            }
            taken += places.len();
            longest = longest.max(call.lane().timeout);
            asked.push((id, places.len()));
            held_places.insert(id, (call, places));
            *held(&self.served) = id;
        }
        let lease = match term {
            Term::RequestAnd(more) => longest + more,
            Term::Exactly(lease) => lease,
        };
        for leased in self.jobs.lease(&asked, lease).await? {
            let Some((call, places)) = held_places.get_mut(&leased.lane) else { continue };
            let Some(place) = places.pop() else { continue };
            found.work.push(Dispatched { call: call.clone(), leased, place });
        }
        found.more |= held_places.values().any(|(_, left)| left.is_empty());
        Ok(())
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
        if complained.insert(subscription, now).is_none() {
            tracing::error!(subscription, %why, "its deliveries wait: the endpoint cannot be called");
        }
    }
}

fn limits_of(lane: &Lane) -> Limits {
    let rate = lane.rate_limit.and_then(std::num::NonZeroU32::new);
    Limits {
        concurrency: usize::try_from(lane.max_concurrency).unwrap_or(usize::MAX),
        rate: rate.map(|requests| Rate { requests, every: Duration::from_secs(1) }),
    }
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
