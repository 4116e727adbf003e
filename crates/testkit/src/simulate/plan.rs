//! What is drawn before a saga begins: its definition, and how hard its life will be.

use std::time::Duration;

use backstitch_kernel::saga::draft::{DraftCompensation, DraftStep, Performer, Problems};
use backstitch_kernel::saga::{Definition, Draft, Start};
use backstitch_kernel::{Backoff, Payload, Retry, SagaId, Timestamp};

use super::random::Random;

/// When simulated time begins: the first moment of 2026.
const BEGINNING: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// The saga to be played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its id.
    pub saga: SagaId,
    /// Its definition: a random graph of one to eight steps.
    pub definition: Definition,
    /// What it is started with.
    pub start: Start,
    /// When.
    pub at: Timestamp,
    /// Whether the node that takes the start is not ready to work.
    pub held: bool,
    /// For how many turns faults are let loose.
    pub storm: usize,
    /// How many calls of a hundred go well during the storm.
    pub luck: u64,
    /// How many faults there are to let loose.
    pub faults: u32,
    /// How likely it is that the fault is a crash.
    pub crashes: u64,
    /// How often a person retries what is stuck before skipping it or doing it by hand.
    pub patience: u32,
    /// Whether anybody looks after a failed rollback at all.
    pub cared_for: bool,
}

impl Plan {
    /// Draws a plan.
    ///
    /// # Errors
    /// When what was drawn makes no definition, which would be a mistake of this file.
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

/// Shaped like the ids of real sagas, so that every store takes it.
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
    // Steps need not be declared in an order in which they can run.
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

/// Never with jitter: the oracle does not know the ids of sagas.
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
