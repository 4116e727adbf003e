//! The simulation detects journals that break their contract.

use backstitch_kernel::SagaId;
use backstitch_kernel::saga::Recorded;
use backstitch_testkit::simulate::{self, Failure, Journal, Memory, Refusal};

/// Runs this many seeds and returns the failures.
fn failures<J: Journal>(journal: impl Fn() -> J) -> Vec<Failure> {
    (0..200).filter_map(|seed| simulate::run(seed, &mut journal()).err()).collect()
}

#[derive(Default)]
struct Unfenced {
    log: Vec<Recorded>,
}

impl Journal for Unfenced {
    fn append(&mut self, _: SagaId, _: u64, events: &[Recorded]) -> Result<(), Refusal> {
        self.log.extend_from_slice(events);
        Ok(())
    }

    fn load(&mut self, _: SagaId) -> Result<Vec<Recorded>, Refusal> {
        Ok(self.log.clone())
    }
}

#[test]
fn a_journal_without_a_fence_is_found_out() {
    let found = failures(Unfenced::default);
    assert!(found.iter().any(|failure| matches!(failure, Failure::NotFenced { .. })), "{found:?}");
}

/// Writes only the first event of an append.
#[derive(Default)]
struct Torn(Memory);

impl Journal for Torn {
    fn append(&mut self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal> {
        self.0.append(saga, expected_seq, &events[..1])
    }

    fn load(&mut self, saga: SagaId) -> Result<Vec<Recorded>, Refusal> {
        self.0.load(saga)
    }
}

#[test]
fn a_journal_that_tears_an_append_is_found_out() {
    let found = failures(Torn::default);
    assert!(found.iter().any(|failure| matches!(failure, Failure::Fenced { .. })), "{found:?}");
}

/// Loses the newest event before the next read.
#[derive(Default)]
struct Forgetful(Memory);

impl Journal for Forgetful {
    fn append(&mut self, saga: SagaId, expected_seq: u64, events: &[Recorded]) -> Result<(), Refusal> {
        self.0.append(saga, expected_seq, events)
    }

    fn load(&mut self, saga: SagaId) -> Result<Vec<Recorded>, Refusal> {
        let mut log = self.0.load(saga)?;
        log.pop();
        Ok(log)
    }
}

#[test]
fn a_journal_that_forgets_is_found_out() {
    let found = failures(Forgetful::default);
    assert!(found.iter().any(|failure| matches!(failure, Failure::Lost { .. })), "{found:?}");
}

struct Broken;

impl Journal for Broken {
    fn append(&mut self, _: SagaId, _: u64, _: &[Recorded]) -> Result<(), Refusal> {
        Err(Refusal::Broken("no room".to_owned()))
    }

    fn load(&mut self, _: SagaId) -> Result<Vec<Recorded>, Refusal> {
        Ok(Vec::new())
    }
}

#[test]
fn a_journal_that_does_not_work_says_so() {
    let found = failures(|| Broken);
    assert_eq!(found.len(), 200);
    assert_eq!(found[0].to_string(), "the journal failed: no room");
}

#[test]
fn the_journal_in_memory_keeps_its_promises() {
    assert!(failures(Memory::default).is_empty());
}
