//! What this process has seen of the last hour: how much, and how long it took.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use backstitch::{Event, Recorded, SagaId, Timestamp};

use crate::telemetry::since_start;

/// Minutes that are kept.
pub(crate) const MINUTES: usize = 60;
const MINUTE: i64 = 60_000_000;
/// Times are told apart by a twelfth of a doubling, from a microsecond to some days: what is shown is off by 6% at most.
const STEPS: u32 = 12;
const PLACES: usize = 40 * STEPS as usize;

/// The minutes of the last hour.
pub(crate) struct Pulse {
    /// When this process began to count.
    since: Timestamp,
    minutes: Mutex<VecDeque<Minute>>,
}

/// A minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Minute {
    /// Which, counted from 1970.
    number: i64,
    pub(crate) started: u64,
    pub(crate) succeeded: u64,
    pub(crate) compensated: u64,
    pub(crate) failed: u64,
    /// How long those that ended took, from their start to their end.
    took: Took,
}

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Took(Vec<u32>);

impl Pulse {
    pub(crate) fn from(since: Timestamp) -> Self {
        Self { since, minutes: Mutex::default() }
    }

    /// When it began to count, if that is within the last hour.
    pub(crate) fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let kept = i64::try_from(MINUTES).unwrap_or(i64::MAX).saturating_mul(MINUTE);
        (now.as_micros() - self.since.as_micros() < kept).then_some(self.since)
    }

    /// Takes note of an event.
    pub(crate) fn count(&self, saga: SagaId, recorded: &Recorded) {
        let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(minute) = at(&mut minutes, recorded.at) else { return };
        match recorded.event {
            Event::SagaStarted(_) => minute.started += 1,
            Event::SagaSucceeded => minute.succeeded += 1,
            Event::SagaCompensated { .. } => minute.compensated += 1,
            Event::SagaFailed { .. } => minute.failed += 1,
            _ => return,
        }
        if recorded.event.is_terminal()
            && let Some(took) = since_start(saga, recorded.at)
        {
            minute.took.count(i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
        }
    }

    /// The last hour, oldest first, with nothing in minutes in which nothing happened.
    pub(crate) fn last_hour(&self, now: Timestamp) -> Vec<Minute> {
        let minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = now.as_micros().div_euclid(MINUTE);
        let kept = i64::try_from(MINUTES).unwrap_or(i64::MAX);
        let minute = |number| {
            let found = minutes.iter().find(|minute| minute.number == number).cloned();
            found.unwrap_or(Minute { number, ..Minute::default() })
        };
        (newest - kept + 1..=newest).map(minute).collect()
    }
}

impl Minute {
    /// All that came to an end.
    pub(crate) fn ended(&self) -> u64 {
        self.succeeded + self.compensated + self.failed
    }

    /// So many of a hundred took no longer, in microseconds; nothing where none ended.
    pub(crate) fn took(&self, percent: u64) -> Option<u64> {
        self.took.at(percent)
    }
}

impl Took {
    fn count(&mut self, micros: i64) {
        if self.0.is_empty() {
            self.0 = vec![0; PLACES];
        }
        let place = place(u64::try_from(micros).unwrap_or_default());
        self.0[place] = self.0[place].saturating_add(1);
    }

    fn at(&self, percent: u64) -> Option<u64> {
        let all: u64 = self.0.iter().map(|&count| u64::from(count)).sum();
        let wanted = (all * percent).div_ceil(100);
        let mut met = 0;
        let found = self.0.iter().position(|&count| {
            met += u64::from(count);
            count > 0 && met >= wanted
        });
        found.map(micros)
    }
}

/// Where a time is counted: by its doublings, each in twelve.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "few enough for a double"
)]
fn place(micros: u64) -> usize {
    let steps = (micros.max(1) as f64).log2() * f64::from(STEPS);
    (steps.round() as usize).min(PLACES - 1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "few enough for a double"
)]
fn micros(place: usize) -> u64 {
    (place as f64 / f64::from(STEPS)).exp2().round() as u64
}

/// The minute of a time; none for one that is long over. Clocks differ: one that is ahead does not hide what others count.
fn at(minutes: &mut VecDeque<Minute>, at: Timestamp) -> Option<&mut Minute> {
    let number = at.as_micros().div_euclid(MINUTE);
    let place = minutes.partition_point(|minute| minute.number < number);
    if minutes.get(place).is_none_or(|minute| minute.number != number) {
        if place == 0 && minutes.len() >= MINUTES {
            return None;
        }
        minutes.insert(place, Minute { number, ..Minute::default() });
        if minutes.len() > MINUTES {
            minutes.pop_front();
        }
    }
    minutes.iter_mut().rev().find(|minute| minute.number == number)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn event(millis: u64, took_millis: i64, event: Event) -> (SagaId, Recorded) {
        let stamp = uuid::Timestamp::from_unix(
            uuid::NoContext,
            millis / 1000,
            u32::try_from(millis % 1000).unwrap() * 1_000_000,
        );
        let saga = SagaId(uuid::Uuid::new_v7(stamp));
        let at = Timestamp::from_micros((i64::try_from(millis).unwrap() + took_millis) * 1000);
        (saga, Recorded { seq: 2, at, event })
    }

    fn count(pulse: &Pulse, (saga, recorded): (SagaId, Recorded)) {
        pulse.count(saga, &recorded);
    }

    #[test]
    fn events_are_counted_in_their_minutes_with_how_long_sagas_took() {
        let pulse = Pulse::from(Timestamp::from_micros(0));
        for took in [10, 20, 40] {
            count(&pulse, event(60_000, took, Event::SagaSucceeded));
        }
        count(&pulse, event(60_000, 61_000, Event::SagaCompensated { results: BTreeMap::new() }));
        let hour = pulse.last_hour(Timestamp::from_micros(2 * MINUTE));
        assert_eq!(hour.len(), MINUTES);
        let [before, last] = [&hour[MINUTES - 2], &hour[MINUTES - 1]];
        assert_eq!((before.succeeded, before.ended(), last.compensated), (3, 3, 1));
        let close =
            |found: Option<u64>, meant: u64| found.is_some_and(|found| found.abs_diff(meant) * 16 < meant);
        assert!(close(before.took(50), 20_000) && close(before.took(99), 40_000), "{:?}", before.took(50));
        assert!(close(last.took(50), 61_000_000));
        assert_eq!(hour[0].took(50), None);
    }

    #[test]
    fn an_hour_is_kept_and_what_is_older_is_gone() {
        let pulse = Pulse::from(Timestamp::from_micros(0));
        for minute in 0..200 {
            count(&pulse, event(minute * 60_000, 0, Event::SagaSucceeded));
        }
        assert_eq!(pulse.minutes.lock().unwrap().len(), MINUTES);
        let hour = pulse.last_hour(Timestamp::from_micros(199 * MINUTE));
        assert!(hour.iter().all(|minute| minute.succeeded == 1));
        assert!(
            pulse.last_hour(Timestamp::from_micros(400 * MINUTE)).iter().all(|minute| minute.ended() == 0)
        );
    }

    #[test]
    fn a_clock_that_is_ahead_hides_nothing_of_what_others_count() {
        let pulse = Pulse::from(Timestamp::from_micros(0));
        count(&pulse, event(600_000, 0, Event::SagaSucceeded));
        count(&pulse, event(120_000, 0, Event::SagaSucceeded));
        let hour = pulse.last_hour(Timestamp::from_micros(2 * MINUTE));
        assert_eq!(hour[MINUTES - 1].succeeded, 1);
    }

    #[test]
    fn it_says_since_when_it_counts_until_that_is_an_hour_ago() {
        let (began, hour) = (Timestamp::from_micros(7 * MINUTE), 60 * MINUTE);
        let pulse = Pulse::from(began);
        assert_eq!(pulse.since(Timestamp::from_micros(8 * MINUTE)), Some(began));
        assert_eq!(pulse.since(Timestamp::from_micros(7 * MINUTE + hour)), None);
    }
}
