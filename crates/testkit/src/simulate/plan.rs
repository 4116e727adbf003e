//! The plan drawn before a saga begins: its definition and its faults.

use std::time::Duration;

use backstitch_kernel::saga::draft::{DraftCompensation, DraftStep, Performer, Problems};
use backstitch_kernel::saga::{Definition, Draft, Start};
use backstitch_kernel::{Backoff, Payload, Retry, SagaId, Timestamp};

use super::random::Random;

/// The start of simulated time: the first moment of 2026.
const BEGINNING: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// The saga to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its id.
    pub saga: SagaId,
    /// Its definition: a random graph of one to eight steps.
    pub definition: Definition,
    /// The data of its start.
    pub start: Start,
    /// The time of its start.
    pub at: Timestamp,
    /// Whether the starting node is draining.
    pub held: bool,
    /// The number of turns with faults.
    pub storm: usize,
    /// Successful calls per hundred during the faults.
    pub luck: u64,
    /// The number of faults.
    pub faults: u32,
    /// The probability that a fault is a crash.
    pub crashes: u64,
    /// How often an operator retries a stuck step before skipping it or marking it as done.
    pub patience: u32,
    /// Whether an operator resolves failed rollbacks.
    pub cared_for: bool,
}

impl Plan {
    /// Draws a plan.
    ///
    /// # Errors
    /// When the drawn plan is invalid, which would be a defect of this file.
    pub fn draw(random: &mut Random) -> Result<Self, Problems> {
        let definition = draft(random).check()?;
        let deadline = random.chance(15).then(|| BEGINNING.plus(seconds(random, 200)));
        Ok(Self {
            saga: saga_id(random),
            definition,
            start: Start { input: Payload::null(), deadline, ..Start::default() },
            at: BEGINNING,
            held: random.chance(5),
            storm: random.index(80),
            luck: random.pick([100, 90, 75, 50, 30, 10]),
            faults: random.pick([0, 2, 6, 12, 30]),
            crashes: random.pick([1, 2, 4, 25]),
            patience: random.pick([0, 1, 3]),
            cared_for: random.chance(80),
        })
    }
}

fn seconds(random: &mut Random, below: u64) -> Duration {
    Duration::from_secs(random.below(below))
}

/// Shaped like ids of real sagas, so every store accepts it.
fn saga_id(random: &mut Random) -> SagaId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random.draw().to_be_bytes());
    bytes[8..].copy_from_slice(&random.draw().to_be_bytes());
    let id = uuid::Builder::from_bytes(bytes);
    SagaId(id.with_version(uuid::Version::SortRand).with_variant(uuid::Variant::RFC4122).into_uuid())
}

fn draft(random: &mut Random) -> Draft {
    let count = 1 + random.index(8);
    let plain = random.chance(25);
    // Steps may be declared in any order.
    let mut ranks: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        ranks.swap(last, random.index(last + 1));
    }
    let density = random.pick([15, 35, 70]);
    let steps = (0..count)
        .map(|at| {
            let mut step = step(random, at);
            if !plain {
                let earlier = (0..count).filter(|&other| ranks[other] < ranks[at]);
                step.depends_on = Some(earlier.filter(|_| random.chance(density)).map(name).collect());
            }
            step
        })
        .collect();
    Draft {
        continue_on_compensation_failure: random.chance(50),
        compensation_concurrency: 1 + random.index(3),
        steps,
        ..Draft::new("simulated")
    }
}

fn name(at: usize) -> String {
    format!("step-{at}")
}

fn step(random: &mut Random, at: usize) -> DraftStep {
    let compensate = random.chance(80).then(|| DraftCompensation {
        action: performer(random),
        timeout: timeout(random),
        queue_timeout: None,
        retry: retry(random),
    });
    let compensate = compensate.map(|undo| {
        let queue_timeout = queue_timeout(random, &undo.action);
        DraftCompensation { queue_timeout, ..undo }
    });
    let action = performer(random);
    let here = action == Performer::Code;
    DraftStep {
        id: name(at),
        title: None,
        depends_on: None,
        queue_timeout: queue_timeout(random, &action),
        action,
        timeout: timeout(random),
        retry: retry(random),
        compensate,
        concurrency: (here && random.chance(15)).then_some(1),
    }
}

fn performer(random: &mut Random) -> Performer {
    if random.chance(80) { Performer::Code } else { Performer::Worker { queue: "workers".to_owned() } }
}

fn queue_timeout(random: &mut Random, performer: &Performer) -> Option<Duration> {
    let limited = performer.queue().is_some() && random.chance(30);
    limited.then(|| Duration::from_secs(random.pick([5, 60])))
}

fn timeout(random: &mut Random) -> Duration {
    Duration::from_secs(random.pick([5, 30, 90]))
}

/// Without jitter, because the oracle does not know the ids of sagas.
fn retry(random: &mut Random) -> Retry {
    let count = random.pick([0, 0, 1, 2, 3]);
    match random.below(3) {
        0 => Retry::fixed(count, seconds(random, 30)),
        1 => Retry::exponential(count, seconds(random, 10)).with_cap(Duration::from_secs(15)),
        _ => {
            let waits = vec![seconds(random, 10), seconds(random, 30)];
            Retry { count, backoff: Backoff::List(waits), jitter_percent: 0, within: None }
        }
    }
}
