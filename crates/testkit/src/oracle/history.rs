//! The attempts of one step and what follows from them.

use std::time::Duration;

use backstitch_kernel::saga::{MAX_INTERRUPTIONS, Phase};
use backstitch_kernel::{Backoff, ErrorKind, Retry, Timestamp};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Good,
    Bad {
        kind: ErrorKind,
        at: Timestamp,
        wish: Option<Duration>,
    },
    /// Interrupted.
    Cut,
}

/// What is known about an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Not ended; possibly not begun.
    Open,
    Yes,
    No,
    Doubtful,
}

/// The state of the obligation to undo the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    #[default]
    Owing,
    Undone,
    Stuck,
    Skipped,
    ByHand,
}

/// Attempts in order; the last may be running.
pub(super) type Tries = Vec<Option<End>>;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) tries: Tries,
    /// The compensation's attempts, one list for each resolution.
    rounds: Vec<Tries>,
    pub(super) fate: Fate,
}

fn failures(tries: &Tries) -> u32 {
    count(tries, |end| matches!(end, End::Bad { .. }))
}

fn cuts(tries: &Tries) -> u32 {
    count(tries, |end| *end == End::Cut)
}

fn count(tries: &Tries, wanted: impl Fn(&End) -> bool) -> u32 {
    tries.iter().flatten().map(|end| u32::from(wanted(end))).sum()
}

/// Until when the next attempt waits; none unless the last one failed.
fn waits_until(tries: &Tries, retry: &Retry) -> Option<Timestamp> {
    match tries.last() {
        Some(Some(End::Bad { at, wish, .. })) => {
            let wish = wish.unwrap_or_default().min(longest_wish(retry));
            Some(at.plus(retry.wait(failures(tries), 0).max(wish)))
        }
        _ => None,
    }
}

/// The longest `Retry-After` that is honoured: the policy's cap, or five minutes. An hour is the default cap of an
/// exponential
/// backoff, which was not chosen.
fn longest_wish(retry: &Retry) -> Duration {
    match retry.backoff {
        Backoff::Exponential { cap, .. } if cap.as_secs() != 3600 => cap,
        Backoff::Exponential { .. } | Backoff::Fixed(_) | Backoff::List(_) => Duration::from_secs(300),
    }
}

fn is_due(tries: &Tries, retry: &Retry, now: Timestamp) -> bool {
    match tries.last() {
        Some(Some(End::Cut)) => true,
        Some(Some(End::Bad { .. })) => waits_until(tries, retry).is_some_and(|until| until <= now),
        Some(Some(End::Good) | None) | None => false,
    }
}

impl History {
    /// The result with this many retries, or none after the rollback began.
    pub(super) fn known(&self, retries: u32, turned: bool) -> Known {
        let Some(last) = self.tries.last() else {
            return Known::Open;
        };
        let hopeless = matches!(last, Some(End::Bad { kind: ErrorKind::Refused | ErrorKind::Unusable, .. }));
        let used_up = failures(&self.tries) > retries || cuts(&self.tries) >= MAX_INTERRUPTIONS;
        match last {
            None => Known::Open,
            Some(End::Good) => Known::Yes,
            Some(_) if !(hopeless || used_up || turned) => Known::Open,
            Some(_) if self.tries.iter().flatten().any(leaves_doubt) => Known::Doubtful,
            Some(_) => Known::No,
        }
    }

    pub(super) fn action_is_due(&self, retry: &Retry, now: Timestamp) -> bool {
        self.tries.is_empty() || is_due(&self.tries, retry, now)
    }

    pub(super) fn action_waits_until(&self, retry: &Retry) -> Option<Timestamp> {
        waits_until(&self.tries, retry)
    }

    /// Whether a started compensation is due for a retry.
    pub(super) fn compensation_is_due(&self, retry: &Retry, now: Timestamp) -> bool {
        self.is_being_undone() && self.rounds.last().is_some_and(|round| is_due(round, retry, now))
    }

    pub(super) fn compensation_waits_until(&self, retry: &Retry) -> Option<Timestamp> {
        let round = self.rounds.last().filter(|_| self.fate == Fate::Owing)?;
        waits_until(round, retry)
    }

    /// Ends the obligation if the attempts of this round have settled it.
    pub(super) fn judge_compensation(&mut self, retries: u32) {
        let Some(round) = self.rounds.last() else {
            return;
        };
        match round.last() {
            Some(Some(End::Good)) => self.fate = Fate::Undone,
            Some(Some(End::Bad { .. })) if failures(round) > retries => self.fate = Fate::Stuck,
            Some(Some(End::Cut)) if cuts(round) >= MAX_INTERRUPTIONS => self.fate = Fate::Stuck,
            _ => {}
        }
    }

    pub(super) fn is_being_undone(&self) -> bool {
        self.fate == Fate::Owing && self.rounds.last().is_some_and(|round| !round.is_empty())
    }

    pub(super) fn was_asked_for_again(&self) -> bool {
        self.rounds.len() > 1
    }

    pub(super) fn new_round(&mut self) {
        self.rounds.push(Tries::new());
    }

    /// The total number of attempts.
    pub(super) fn count(&self, phase: Phase) -> u32 {
        let count = match phase {
            Phase::Do => self.tries.len(),
            Phase::Undo => self.rounds.iter().map(Vec::len).sum(),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn begin(&mut self, phase: Phase) {
        self.current(phase).push(None);
    }

    pub(super) fn finish(&mut self, phase: Phase, end: End) {
        if let Some(last) = self.current(phase).last_mut() {
            *last = Some(end);
        }
    }

    fn current(&mut self, phase: Phase) -> &mut Tries {
        if phase == Phase::Do {
            return &mut self.tries;
        }
        if self.rounds.is_empty() {
            self.rounds.push(Tries::new());
        }
        let newest = self.rounds.len() - 1;
        &mut self.rounds[newest]
    }
}

fn leaves_doubt(end: &End) -> bool {
    match end {
        End::Good => false,
        End::Cut => true,
        End::Bad { kind, .. } => match kind {
            ErrorKind::InDoubt
            | ErrorKind::TimedOut
            | ErrorKind::Panicked
            | ErrorKind::Unusable
            | ErrorKind::Interrupted => true,
            ErrorKind::Failed | ErrorKind::Refused | ErrorKind::Cancelled | ErrorKind::DeadlineExceeded => {
                false
            }
        },
    }
}
