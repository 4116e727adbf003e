//! Room for attempts: an attempt of a limited step, or of a call to a host, is decided only once there is room for it.

use std::sync::Arc;

use backstitch_kernel::saga::{Decision, Effect, Phase};
use tokio::sync::OwnedSemaphorePermit;

use super::ActiveSaga;
use crate::limit::{Limit, LimitPermit, LimitScope};
use crate::registry::Registered;

/// The limits that an attempt counts against.
#[derive(Clone, Default)]
pub(crate) struct AttemptLimits {
    pub(crate) step: Option<Limit>,
    /// The part of the slots that attempts of the host may take; there is one where there is a host.
    pub(crate) host_share: Option<Limit>,
    pub(crate) host: Option<Limit>,
}

impl AttemptLimits {
    pub(crate) fn is_unlimited(&self) -> bool {
        self.step.is_none() && self.host.is_none()
    }

    /// Takes room at all limits, or none.
    pub(crate) fn try_acquire(&self) -> Option<Permits> {
        Some(Permits {
            step: self.step.as_ref().map(|limit| limit.try_acquire().ok_or(())).transpose().ok()?,
            host_share: self
                .host_share
                .as_ref()
                .map(|limit| limit.try_acquire().ok_or(()))
                .transpose()
                .ok()?,
            host: self.host.as_ref().map(|limit| limit.try_acquire().ok_or(())).transpose().ok()?,
        })
    }

    /// Waits for room. The step comes first: its room is of no use to others, that of a host is, also to lifecycles.
    pub(crate) async fn acquire(&self) -> Permits {
        let mut permits = Permits::default();
        if let Some(limit) = &self.step {
            permits.step = Some(limit.acquire().await);
        }
        if let Some(limit) = &self.host_share {
            permits.host_share = Some(limit.acquire().await);
        }
        if let Some(limit) = &self.host {
            permits.host = Some(limit.acquire().await);
        }
        permits
    }

    /// Tells limits apart.
    pub(crate) fn ids(&self) -> [Option<usize>; 3] {
        [&self.step, &self.host_share, &self.host].map(|limit| limit.as_ref().map(Limit::id))
    }

    /// The limit that has no room, or had none a moment ago.
    pub(crate) fn blocking(&self) -> Option<&LimitScope> {
        let all = || self.host.iter().chain(&self.host_share).chain(&self.step);
        all().find(|limit| limit.is_full()).or_else(|| all().next()).map(Limit::scope)
    }

    /// The host and the step that it counts against.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &LimitScope> {
        self.host.iter().chain(&self.step).map(Limit::scope)
    }
}

/// Room that an attempt holds until it ends.
#[derive(Default)]
pub(crate) struct Permits {
    step: Option<LimitPermit>,
    host_share: Option<LimitPermit>,
    host: Option<LimitPermit>,
}

/// The slot of a saga whose attempts run here. All of them use it.
pub(super) struct HeldSlot {
    active: Arc<ActiveSaga>,
    _permit: OwnedSemaphorePermit,
}

impl HeldSlot {
    pub(super) fn new(permit: OwnedSemaphorePermit, active: &Arc<ActiveSaga>) -> Self {
        active.hold_slot(true);
        Self { active: active.clone(), _permit: permit }
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        self.active.hold_slot(false);
    }
}

/// A limited attempt that runs. Its saga says so, for the operator who asks what holds the slots.
pub(super) struct LimitedAttempt {
    active: Arc<ActiveSaga>,
    limits: AttemptLimits,
}

impl LimitedAttempt {
    /// `None` for an attempt without limits.
    pub(super) fn new(limits: &AttemptLimits, active: &Arc<ActiveSaga>) -> Option<Self> {
        (!limits.is_unlimited()).then(|| {
            active.begin_attempt(limits.clone());
            Self { active: active.clone(), limits: limits.clone() }
        })
    }
}

impl Drop for LimitedAttempt {
    fn drop(&mut self) {
        self.active.end_attempt(&self.limits);
    }
}

/// What a saga waited for in the run queue.
pub(crate) struct Grant {
    /// Absent where the saga holds one already.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
    /// Absent where it waited for the slot alone.
    pub(crate) reservation: Option<Reservation>,
}

/// Room that was taken for an attempt that is about to be decided.
pub(crate) struct Reservation {
    pub(crate) position: usize,
    pub(crate) phase: Phase,
    pub(crate) permits: Permits,
}

impl Reservation {
    pub(crate) fn is_for(&self, position: usize, phase: Phase) -> bool {
        (self.position, self.phase) == (position, phase)
    }
}

/// Decides, and takes room for every attempt that the decision starts. Where there is none, it is decided again: the
/// attempt then asks for room instead. `asking` are the positions that do so already.
pub(crate) fn decide_within_room<E>(
    definition: &Registered,
    asking: &[usize],
    reserved: &mut Vec<Reservation>,
    mut decide: impl FnMut(&[usize]) -> Result<Decision, E>,
) -> Result<Decision, E> {
    let mut full = asking.to_vec();
    loop {
        let decision = decide(&full)?;
        let before = full.len();
        for effect in &decision.effects {
            let Effect::Run { position, phase, .. } = *effect else { continue };
            let limits = definition.limits(position, phase);
            if limits.is_unlimited() || reserved.iter().any(|it| it.is_for(position, phase)) {
                continue;
            }
            match limits.try_acquire() {
                Some(permits) => reserved.push(Reservation { position, phase, permits }),
                None => full.push(position),
            }
        }
        if full.len() == before {
            return Ok(decision);
        }
    }
}

/// Whether a decision starts attempts in this process.
pub(crate) fn starts_attempts(decision: &Decision) -> bool {
    decision.effects.iter().any(|effect| matches!(effect, Effect::Run { .. }))
}
