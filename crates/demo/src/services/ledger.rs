//! The calls to the simulated services and their effects.

use std::collections::HashMap;

use backstitch::Phase;
use backstitch_modules::orders::Service;

use super::behaviour::Work;

/// A received call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The service that was called.
    pub service: Service,
    /// Action or compensation.
    pub phase: Phase,
    /// Its `Idempotency-Key`.
    pub key: String,
    /// The calling saga.
    pub saga: String,
    /// The calling step.
    pub step: String,
    /// The attempt.
    pub attempt: u32,
    /// Its `traceparent`.
    pub traceparent: Option<String>,
    /// The status of the response; none while it waits, or if no response was sent.
    pub answered: Option<u16>,
}

/// An effect that was not undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The service.
    pub service: Service,
    /// The saga.
    pub saga: String,
    /// The step.
    pub step: String,
    /// How often; more than once only if a step used several keys.
    pub times: u32,
}

/// The result of a call's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Done {
        receipt: String,
    },
    Undone {
        receipt: Option<String>,
    },
    Refused,
    /// The undo arrived first.
    TooLate,
    /// Undecided.
    Open,
}

/// A service's state for a step of a saga.
#[derive(Default)]
struct Account {
    position: usize,
    times: u32,
    receipt: Option<String>,
    /// Set by an undo, for good.
    closed: bool,
}

type Key = (Service, Phase, String);

/// The ledger of all services.
#[derive(Default)]
pub(super) struct Ledger {
    calls: Vec<Call>,
    calls_under: HashMap<Key, u32>,
    verdicts: HashMap<Key, Verdict>,
    accounts: HashMap<(Service, String, String), Account>,
}

impl Ledger {
    /// Records a call. Returns its number, and the number of earlier calls under the same key.
    pub(super) fn hear(&mut self, call: Call) -> (usize, u32) {
        let under = self.calls_under.entry((call.service, call.phase, call.key.clone())).or_default();
        let earlier = *under;
        *under += 1;
        self.calls.push(call);
        (self.calls.len() - 1, earlier)
    }

    /// Does the work of a call, unless its key was decided before.
    pub(super) fn settle(&mut self, number: usize, work: Work) -> Verdict {
        let Some(call) = self.calls.get(number) else { return Verdict::Open };
        let account = (call.service, call.saga.clone(), call.step.clone());
        let key = (call.service, call.phase, call.key.clone());
        let position = self.accounts.len();
        let account =
            self.accounts.entry(account).or_insert_with(|| Account { position, ..Account::default() });
        if call.phase == Phase::Do && account.closed {
            return Verdict::TooLate;
        }
        if let Some(verdict) = self.verdicts.get(&key) {
            return verdict.clone();
        }
        let verdict = match (call.phase, work) {
            (_, Work::LeftAlone) => return Verdict::Open,
            // An undo is retried until it succeeds, so its refusal is not final.
            (Phase::Undo, Work::Refused) => return Verdict::Refused,
            (Phase::Do, Work::Refused) => Verdict::Refused,
            (Phase::Do, Work::CarriedOut) => {
                account.times += 1;
                let receipt = format!("{}-{}", call.service.name(), number + 1);
                account.receipt = Some(receipt.clone());
                Verdict::Done { receipt }
            }
            (Phase::Undo, Work::CarriedOut) => {
                account.times = account.times.saturating_sub(1);
                account.closed = true;
                Verdict::Undone { receipt: account.receipt.clone() }
            }
        };
        self.verdicts.insert(key, verdict.clone());
        verdict
    }

    pub(super) fn answered(&mut self, number: usize, status: u16) {
        if let Some(call) = self.calls.get_mut(number) {
            call.answered = Some(status);
        }
    }

    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub(super) fn applied(&self) -> Vec<Applied> {
        let mut standing: Vec<_> = self.accounts.iter().filter(|(_, account)| account.times > 0).collect();
        standing.sort_by_key(|(_, account)| account.position);
        let applied = |((service, saga, step), account): (&(Service, String, String), &Account)| Applied {
            service: *service,
            saga: saga.clone(),
            step: step.clone(),
            times: account.times,
        };
        standing.into_iter().map(applied).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(phase: Phase, key: &str) -> Call {
        Call {
            service: Service::Payment,
            phase,
            key: key.to_owned(),
            saga: "saga".to_owned(),
            step: "payment".to_owned(),
            attempt: 1,
            traceparent: None,
            answered: None,
        }
    }

    fn ask(ledger: &mut Ledger, phase: Phase, key: &str, work: Work) -> Verdict {
        let (number, _) = ledger.hear(call(phase, key));
        ledger.settle(number, work)
    }

    #[test]
    fn a_repeated_call_is_carried_out_once_and_answered_the_same() {
        let mut ledger = Ledger::default();
        let first = ask(&mut ledger, Phase::Do, "a", Work::CarriedOut);
        assert_eq!(ask(&mut ledger, Phase::Do, "a", Work::CarriedOut), first);
        assert_eq!(ask(&mut ledger, Phase::Do, "a", Work::Refused), first);
        assert_eq!(ledger.applied()[0].times, 1);
    }

    #[test]
    fn a_step_that_calls_under_two_keys_is_found_out() {
        let mut ledger = Ledger::default();
        ask(&mut ledger, Phase::Do, "a", Work::CarriedOut);
        ask(&mut ledger, Phase::Do, "b", Work::CarriedOut);
        assert_eq!(ledger.applied()[0].times, 2);
    }

    #[test]
    fn an_undo_without_its_do_succeeds_and_the_late_do_is_refused() {
        let mut ledger = Ledger::default();
        let undone = ask(&mut ledger, Phase::Undo, "u", Work::CarriedOut);
        assert_eq!(undone, Verdict::Undone { receipt: None });
        assert_eq!(ask(&mut ledger, Phase::Do, "d", Work::CarriedOut), Verdict::TooLate);
        assert!(ledger.applied().is_empty());
    }

    #[test]
    fn a_do_that_is_repeated_after_its_undo_is_refused_too() {
        let mut ledger = Ledger::default();
        ask(&mut ledger, Phase::Do, "d", Work::CarriedOut);
        ask(&mut ledger, Phase::Undo, "u", Work::CarriedOut);
        assert_eq!(ask(&mut ledger, Phase::Do, "d", Work::CarriedOut), Verdict::TooLate);
        assert!(ledger.applied().is_empty());
    }

    #[test]
    fn an_undo_that_was_refused_can_be_asked_for_again() {
        let mut ledger = Ledger::default();
        ask(&mut ledger, Phase::Do, "d", Work::CarriedOut);
        assert_eq!(ask(&mut ledger, Phase::Undo, "u", Work::Refused), Verdict::Refused);
        assert_eq!(ledger.applied().len(), 1);
        ask(&mut ledger, Phase::Undo, "u", Work::CarriedOut);
        assert!(ledger.applied().is_empty());
    }
}
