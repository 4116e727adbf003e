//! A deterministic simulation with random faults, driven by one seed.
//!
//! [`run`] runs one saga to its end: services that succeed, fail, refuse, never respond or respond too late, nodes that
//! crash at
//! the worst moment, clocks that jump, operators who cancel, pause and resolve. First faults occur, then everything
//! works and the
//! saga must end. The seed alone decides what happens, so the same seed over two [`Journal`]s gives two equal logs, or
//! one of the
//! journals is wrong.

mod journal;
mod kind;
mod plan;
mod random;
mod services;
mod stored;
mod world;

use backstitch_kernel::saga::draft::Problems;
use backstitch_kernel::saga::state::ReplayError;
use backstitch_kernel::saga::{Input, Now, Recorded, Rejected, State};

use std::collections::{BTreeMap, BTreeSet};

pub use self::journal::{Journal, Memory, Refusal};
pub use self::kind::Kind;
pub use self::plan::Plan;
pub use self::random::Random;
pub use self::services::{Ledger, Made};
pub use self::stored::Stored;
use self::world::World;
use crate::oracle::Try;

/// The run of one saga.
#[derive(Debug)]
pub struct Run {
    /// The plan drawn from the seed.
    pub plan: Plan,
    /// The final log in the journal.
    pub log: Vec<Recorded>,
    /// Every decided input; the first is the start.
    pub turns: Vec<Turn>,
    /// The services' ledger.
    pub ledger: Ledger,
    /// The kinds of events and their counts.
    pub seen: BTreeMap<Kind, u32>,
}

/// One input and its result.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The time and the node's state.
    pub now: Now,
    /// The input; none for the start.
    pub input: Option<Input>,
    /// The refusal, if there is one.
    pub rejected: Option<Rejected>,
    /// The state after it.
    pub state: State,
    /// The running calls afterwards; unknown if the node crashed before it made them.
    pub calls: Option<BTreeSet<Try>>,
    /// The limited steps that asked for room; unknown as above.
    pub asks: Option<BTreeSet<usize>>,
}

/// Why a run is invalid, or proves a defect.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The plan does not make a definition.
    #[error("the plan is wrong: {0}")]
    Plan(#[from] Problems),
    /// The journal could not be used.
    #[error("the journal failed: {0}")]
    Journal(String),
    /// The journal contains something else than was decided.
    #[error("the log read back gives another state than the one decided at event {seq}")]
    Lost {
        /// The newest event.
        seq: u64,
    },
    /// The log does not fold.
    #[error("the log cannot be read back: {0}")]
    ReplayError(#[from] ReplayError),
    /// A node that lost the saga could still append.
    #[error("a node that had lost the saga appended event {seq}")]
    NotFenced {
        /// The event.
        seq: u64,
    },
    /// The owner of the saga could not append.
    #[error("the owner was refused event {seq}")]
    Fenced {
        /// The event.
        seq: u64,
    },
    /// Nothing is running, due, requested or paused, and the saga has not ended.
    #[error("the saga is silently stuck after event {seq}")]
    Silent {
        /// The newest event.
        seq: u64,
    },
    /// The saga does not end.
    #[error("the saga has not ended after {turns} turns")]
    Endless {
        /// The number of turns.
        turns: usize,
    },
}

/// Runs the saga of this seed over this journal.
///
/// # Errors
/// When the journal or the kernel is wrong; see [`Failure`].
pub fn run<J: Journal>(seed: u64, journal: &mut J) -> Result<Run, Failure> {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random)?;
    World::begin(plan, random, journal)?.play()
}
