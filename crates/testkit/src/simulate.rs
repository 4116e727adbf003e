//! A world in which everything goes wrong that can, drawn from one number.
//!
//! [`run`] plays one saga to its end: services that succeed, fail, refuse, fall silent or answer too late, nodes
//! that die at the worst moment, clocks that jump, people who cancel, pause and resolve. First faults are let
//! loose, then everything heals and the saga must end. The seed alone decides what happens, so the same seed
//! over two [`Journal`]s gives two equal logs, or one of the journals is wrong.

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

/// One saga's whole life.
#[derive(Debug)]
pub struct Run {
    /// What was drawn before it began.
    pub plan: Plan,
    /// The log as the journal has it at the end.
    pub log: Vec<Recorded>,
    /// Every input that was decided, the first being the start.
    pub turns: Vec<Turn>,
    /// What the services did.
    pub ledger: Ledger,
    /// What happened, and how often.
    pub seen: BTreeMap<Kind, u32>,
}

/// One input and what came of it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The circumstances.
    pub now: Now,
    /// What was said; nothing at the start.
    pub input: Option<Input>,
    /// Why it changed nothing, if so.
    pub rejected: Option<Rejected>,
    /// The state after it.
    pub state: State,
    /// The calls in flight after it; unknown when the node died before it made them.
    pub calls: Option<BTreeSet<Try>>,
    /// The limited steps for which room was asked; unknown as above.
    pub asks: Option<BTreeSet<usize>>,
}

/// Why a run is worth nothing, or proves a mistake.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The plan does not make a definition.
    #[error("the plan is wrong: {0}")]
    Plan(#[from] Problems),
    /// The journal could not be used.
    #[error("the journal failed: {0}")]
    Journal(String),
    /// The journal holds something else than was decided.
    #[error("the log read back gives another state than the one decided at event {seq}")]
    Lost {
        /// The newest event.
        seq: u64,
    },
    /// The log does not fold.
    #[error("the log cannot be read back: {0}")]
    ReplayError(#[from] ReplayError),
    /// A node that had lost the saga could still write to it.
    #[error("a node that had lost the saga appended event {seq}")]
    NotFenced {
        /// The event.
        seq: u64,
    },
    /// The owner of the saga could not write to it.
    #[error("the owner was refused event {seq}")]
    Fenced {
        /// The event.
        seq: u64,
    },
    /// Nothing is in flight, due, asked for or paused, and the saga has not ended.
    #[error("the saga is silently stuck after event {seq}")]
    Silent {
        /// The newest event.
        seq: u64,
    },
    /// It goes on and on.
    #[error("the saga has not ended after {turns} turns")]
    Endless {
        /// How many there were.
        turns: usize,
    },
}

/// Plays the saga of this seed over this journal.
///
/// # Errors
/// When the journal or the kernel does what must never be done; see [`Failure`].
pub fn run<J: Journal>(seed: u64, journal: &mut J) -> Result<Run, Failure> {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random)?;
    World::begin(plan, random, journal)?.play()
}
