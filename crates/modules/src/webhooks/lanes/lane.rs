//! One endpoint's lane.

use std::time::Duration;

use backstitch::Timestamp;

use super::breaker::{Breaker, Ticket};
use super::rate::Meter;
use super::share::Asking;
use super::{Limits, PauseReason, Settings, Verdict, Why};

/// Unused for so long, and for the longest rest, a lane knows nothing that still matters.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);

/// An endpoint that has requests and answers none of them for so long may not work any more.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// What is known about one endpoint. Its places are no [`Limit`](backstitch::Limit): the room of an endpoint changes from
/// request to request, and whether it gets a place depends on the health and the share of all the others.
#[derive(Default)]
pub(super) struct Lane {
    held: usize,
    breaker: Breaker,
    meter: Option<Meter>,
    /// It asked to be left alone until then.
    quiet_until: Duration,
    /// Its rate is used up until then.
    paced_until: Duration,
    used: Duration,
    /// It did its work the last time that something was heard of it, and that is not too long ago.
    proven: bool,
    /// When something was last heard of it, or first asked again.
    heard: Duration,
    /// Which of the endpoint's changes it knows of.
    changed_at: Option<Timestamp>,
}

impl Lane {
    /// What counts for it when places are scarce.
    pub(super) fn asking(&self) -> Asking {
        Asking { held: self.held, proven: self.proven }
    }

    /// Whether it is taken to work although it has answered nothing for a while.
    pub(super) fn is_silent(&self, now: Duration) -> bool {
        self.proven && self.held > 0 && now.saturating_sub(self.heard) > SILENT_AFTER
    }

    /// Takes it to work no more, until it answers.
    pub(super) fn doubt(&mut self) {
        self.proven = false;
    }

    /// Takes a place; whether the sender has one to give is for others to say. The rate is asked last, because asking
    /// counts.
    pub(super) fn enter(
        &mut self,
        limits: &Limits,
        may_take: impl FnOnce(Asking) -> bool,
        now: Duration,
    ) -> Result<Ticket, (Why, Option<Duration>)> {
        if let Some(closed) = self.rests(now) {
            return Err(closed);
        }
        if self.held >= limits.concurrency.max(1) {
            return Err((Why::Busy, None));
        }
        if !may_take(self.asking()) {
            return Err((Why::Full, None));
        }
        self.pace(limits, now)?;
        if self.held == 0 {
            self.heard = now;
        }
        self.held += 1;
        self.used = now;
        Ok(self.breaker.begin())
    }

    /// Gives a place back.
    pub(super) fn leave(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        quiet_for: Option<Duration>,
        now: Duration,
        settings: &Settings,
    ) {
        self.held -= 1;
        self.breaker.end(ticket, verdict, now, settings);
        self.note(verdict, quiet_for, now, settings);
    }

    /// What became of a request that another node gave a place to.
    pub(super) fn hear(
        &mut self,
        verdict: Verdict,
        quiet_for: Option<Duration>,
        now: Duration,
        settings: &Settings,
    ) {
        self.breaker.hear(verdict, now, settings);
        self.note(verdict, quiet_for, now, settings);
    }

    fn note(&mut self, verdict: Verdict, quiet_for: Option<Duration>, now: Duration, settings: &Settings) {
        self.used = now;
        if verdict != Verdict::Unknown {
            self.proven = verdict == Verdict::Well;
            self.heard = now;
        }
        if let Some(quiet_for) = quiet_for {
            let until = now.saturating_add(quiet_for.min(settings.longest_rest));
            self.quiet_until = self.quiet_until.max(until);
        }
    }

    /// Gives a place back that nothing was sent from: it does not count.
    pub(super) fn leave_unused(&mut self, ticket: Ticket, now: Duration, settings: &Settings) {
        if let Some(meter) = &mut self.meter {
            meter.uncount();
            self.paced_until = Duration::ZERO;
        }
        self.leave(ticket, Verdict::Unknown, None, now, settings);
    }

    /// How many could enter now, before the rate is asked.
    pub(super) fn room(&self, limits: &Limits, now: Duration) -> usize {
        if self.closed(now).is_some() {
            return 0;
        }
        let room = limits.concurrency.max(1).saturating_sub(self.held);
        if self.breaker.wants_a_trial() { room.min(1) } else { room }
    }

    /// Why nobody can enter now, whatever the limits are.
    pub(super) fn closed(&self, now: Duration) -> Option<(Why, Option<Duration>)> {
        let paced = (self.paced_until > now).then_some((Why::Paced, Some(self.paced_until)));
        self.rests(now).or(paced)
    }

    /// Whether it is left alone.
    fn rests(&self, now: Duration) -> Option<(Why, Option<Duration>)> {
        if let Err(until) = self.breaker.admits(now) {
            // Both must be over.
            return Some((Why::Broken, until.map(|until| until.max(self.quiet_until))));
        }
        (self.quiet_until > now).then_some((Why::Quiet, Some(self.quiet_until)))
    }

    /// Until when it is left alone, and why: the later of what the breaker and what the endpoint says. That time may be over.
    pub(super) fn pause(&self) -> Option<(Duration, PauseReason)> {
        let asked_for = (!self.quiet_until.is_zero()).then_some((self.quiet_until, PauseReason::RetryAfter));
        self.breaker.pause().into_iter().chain(asked_for).max_by_key(|(until, _)| *until)
    }

    fn pace(&mut self, limits: &Limits, now: Duration) -> Result<(), (Why, Option<Duration>)> {
        if self.meter.as_ref().map(Meter::rate) != limits.rate {
            let before = self.meter.take();
            self.meter = limits.rate.and_then(|rate| Meter::after(before.as_ref(), rate));
            self.paced_until = Duration::ZERO;
        }
        let Some(meter) = &mut self.meter else { return Ok(()) };
        meter.count(now).map_err(|until| {
            self.paced_until = until;
            (Why::Paced, Some(until))
        })
    }

    /// Forgets what is held against an endpoint as it was before, but not its rate.
    pub(super) fn as_of(&mut self, changed_at: Timestamp) {
        // Whoever looked earlier may say so later.
        if self.changed_at.is_none_or(|known| known < changed_at) {
            // Of one that was heard of before it was looked at, nothing says that it has changed since.
            if self.changed_at.replace(changed_at).is_some() {
                self.breaker.forgive();
                self.quiet_until = Duration::ZERO;
            }
        }
    }

    pub(super) fn is_forgotten(&self, now: Duration, settings: &Settings) -> bool {
        self.held == 0 && now.saturating_sub(self.used) > FORGOTTEN_AFTER.max(settings.longest_rest)
    }
}
