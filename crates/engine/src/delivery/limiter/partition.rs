//! What a limiter knows about one partition.

use std::time::Duration;

use backstitch_kernel::Timestamp;

use super::breaker::{Breaker, Ticket};
use super::fair_share::Asking;
use super::rate::Meter;
use super::{LimiterSettings, Limits, PauseReason, RefusalReason, Verdict};

/// Unused for so long, and for the longest pause, a partition knows nothing that still matters.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// A receiver that has attempts and ends none of them for so long is not known to be healthy any more.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// State of one partition. Its places are no [`Limit`](crate::Limit): its concurrency can change with every attempt, and
/// whether it gets a place depends on the health and the places of all other partitions.
#[derive(Default)]
pub(super) struct PartitionState {
    held: usize,
    breaker: Breaker,
    meter: Option<Meter>,
    /// The receiver asked for no attempts until then.
    retry_after: Duration,
    /// The rate is used up until then.
    rate_used_until: Duration,
    last_used: Duration,
    /// The last result was healthy, and not too long ago.
    healthy: bool,
    /// When the last result came, or when the first attempt after an idle time began.
    last_result: Duration,
    /// The newest change of its configuration that the limiter has seen.
    changed_at: Option<Timestamp>,
}

/// Why there is no place, and when to ask again.
pub(super) type Refused = (RefusalReason, Option<Duration>);

impl PartitionState {
    /// What counts for it when places are scarce.
    pub(super) fn asking(&self) -> Asking {
        Asking { held: self.held, healthy: self.healthy }
    }

    /// Whether it counts as healthy although its attempts have not ended for a while.
    pub(super) fn is_silent(&self, now: Duration) -> bool {
        self.healthy && self.held > 0 && now.saturating_sub(self.last_result) > SILENT_AFTER
    }

    /// Counts it as not healthy until its next result.
    pub(super) fn doubt(&mut self) {
        self.healthy = false;
    }

    /// Takes a place, if `may_take` says that the limiter has one for it. The rate comes last, because asking counts.
    pub(super) fn acquire(
        &mut self,
        limits: &Limits,
        may_take: impl FnOnce(Asking) -> bool,
        now: Duration,
    ) -> Result<Ticket, Refused> {
        if let Some(paused) = self.paused(now) {
            return Err(paused);
        }
        if self.held >= limits.concurrency.max(1) {
            return Err((RefusalReason::Concurrency, None));
        }
        if !may_take(self.asking()) {
            return Err((RefusalReason::Places, None));
        }
        self.count_against_rate(limits, now)?;
        if self.held == 0 {
            self.last_result = now;
        }
        self.held += 1;
        self.last_used = now;
        Ok(self.breaker.begin())
    }

    /// Gives a place back after an attempt.
    pub(super) fn release(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        retry_after: Option<Duration>,
        now: Duration,
        settings: &LimiterSettings,
    ) {
        self.held -= 1;
        self.breaker.end(ticket, verdict, now, settings);
        self.note(verdict, retry_after, now, settings);
    }

    /// Gives back places that no attempt was made with: they do not count against the rate.
    pub(super) fn release_unused(
        &mut self,
        ticket: Ticket,
        places: usize,
        now: Duration,
        settings: &LimiterSettings,
    ) {
        if let Some(meter) = &mut self.meter {
            (0..places).for_each(|_| meter.uncount());
            self.rate_used_until = Duration::ZERO;
        }
        self.held -= places;
        self.breaker.end(ticket, Verdict::Unknown, now, settings);
        self.note(Verdict::Unknown, None, now, settings);
    }

    /// Records the result of an attempt that another node admitted.
    pub(super) fn observe(
        &mut self,
        verdict: Verdict,
        retry_after: Option<Duration>,
        now: Duration,
        settings: &LimiterSettings,
    ) {
        self.breaker.observe(verdict, now, settings);
        self.note(verdict, retry_after, now, settings);
    }

    fn note(
        &mut self,
        verdict: Verdict,
        retry_after: Option<Duration>,
        now: Duration,
        settings: &LimiterSettings,
    ) {
        self.last_used = now;
        if verdict != Verdict::Unknown {
            self.healthy = verdict == Verdict::Healthy;
            self.last_result = now;
        }
        if let Some(wait) = retry_after {
            let until = now.saturating_add(wait.min(settings.longest_pause));
            self.retry_after = self.retry_after.max(until);
        }
    }

    /// How many attempts could begin now, not counting the rate.
    pub(super) fn available(&self, limits: &Limits, now: Duration) -> usize {
        if self.refusal(now).is_some() {
            return 0;
        }
        let available = limits.concurrency.max(1).saturating_sub(self.held);
        if self.breaker.wants_a_probe() { available.min(1) } else { available }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Why no attempt can begin now, whatever the limits are.
    pub(super) fn refusal(&self, now: Duration) -> Option<Refused> {
        let rate_used =
            (self.rate_used_until > now).then_some((RefusalReason::Rate, Some(self.rate_used_until)));
        self.paused(now).or(rate_used)
    }

    fn paused(&self, now: Duration) -> Option<Refused> {
        if let Err(until) = self.breaker.admits(now) {
            // Both must be over.
            return Some((RefusalReason::BreakerOpen, until.map(|until| until.max(self.retry_after))));
        }
        (self.retry_after > now).then_some((RefusalReason::RetryAfter, Some(self.retry_after)))
    }

    /// Until when it is paused, and why: the later of the breaker's and the receiver's time. That time may be over.
    pub(super) fn pause(&self) -> Option<(Duration, PauseReason)> {
        let asked_for = (!self.retry_after.is_zero()).then_some((self.retry_after, PauseReason::RetryAfter));
        self.breaker.pause().into_iter().chain(asked_for).max_by_key(|(until, _)| *until)
    }

    fn count_against_rate(&mut self, limits: &Limits, now: Duration) -> Result<(), Refused> {
        if self.meter.as_ref().map(Meter::rate) != limits.rate {
            let before = self.meter.take();
            self.meter = limits.rate.and_then(|rate| Meter::after(before.as_ref(), rate));
            self.rate_used_until = Duration::ZERO;
        }
        let Some(meter) = &mut self.meter else { return Ok(()) };
        meter.count(now).map_err(|until| {
            self.rate_used_until = until;
            (RefusalReason::Rate, Some(until))
        })
    }

    /// Ends its pauses if its configuration has changed. Its rate stays used up.
    pub(super) fn config_changed(&mut self, changed_at: Timestamp) {
        // Two readers of the configuration may come here in the other order.
        if self.changed_at.is_none_or(|known| known < changed_at) {
            // Of the first change that the limiter sees it does not know whether it came after the results.
            if self.changed_at.replace(changed_at).is_some() {
                self.breaker.reset();
                self.retry_after = Duration::ZERO;
            }
        }
    }

    pub(super) fn is_forgotten(&self, now: Duration, settings: &LimiterSettings) -> bool {
        self.held == 0 && now.saturating_sub(self.last_used) > FORGOTTEN_AFTER.max(settings.longest_pause)
    }
}
