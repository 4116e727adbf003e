//! The kill loop: start a node, let it work for a random time, kill it, repeat.

use std::fmt;
use std::io;
use std::time::Duration;

use super::check::{self, Acknowledged, Failure, Report, Terms};
use super::process::{Node, Settings};
use crate::scale;

/// The earliest kill after a node began to work, and
const EARLIEST_KILL_MICROS: u64 = 20_000;
/// the latest.
const LATEST_KILL_MICROS: u64 = 300_000;
/// How long a node may take to start on a busy machine.
const START_WITHIN: Duration = crate::PATIENCE;

/// Pseudo-random numbers of a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// The time of the next kill.
    fn kill_after(&mut self) -> Duration {
        Duration::from_micros(EARLIEST_KILL_MICROS + self.below(LATEST_KILL_MICROS - EARLIEST_KILL_MICROS))
    }
}

/// The result of a kill loop.
#[derive(Debug, Default)]
pub struct Killed {
    /// How many processes were killed.
    pub kills: usize,
    /// Processes that had acknowledged a start.
    pub while_loaded: usize,
    /// All acknowledged starts.
    pub acknowledged: Vec<Acknowledged>,
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, while_loaded, acknowledged } = self;
        write!(f, "{kills} kills, {while_loaded} under load, {} starts acknowledged", acknowledged.len())
    }
}

/// When a node adopts the sagas of one that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// As soon as it is ready.
    AtOnce,
    /// When the lease of the dead node has expired.
    AfterLease,
}

/// Kills nodes on this store as often as the scale requires and checks the result; returns the number of kills.
///
/// # Errors
/// When a node cannot be started, or ends before it is killed, or the store cannot be read.
///
/// # Panics
/// When anything is lost, or the kills came at useless moments.
pub async fn assert_kills_lose_nothing(
    settings: Settings,
    seed: u64,
    adoption: Adoption,
) -> Result<(usize, Report), Failure> {
    let kills = scale::kills();
    let seed = scale::seed(seed);
    let Settings { address, folder, lease, .. } = settings.clone();
    let killed =
        tokio::task::spawn_blocking(move || kill_in_a_loop(&settings, seed, kills, adoption)).await??;
    let report = check::address(&address, &folder, Terms::for_lease(lease), &killed.acknowledged).await?;
    println!("seed {seed}: {killed}; {report}");
    report.assert_clean();
    assert!(killed.while_loaded * 2 >= kills, "most kills came before any start was acknowledged: {killed}");
    assert!(report.interrupted > 0, "no kill interrupted an attempt: {report}");
    Ok((kills, report))
}

/// Kills this many nodes one after the other on the same store.
///
/// # Errors
/// When a node cannot be started, or ends before it is killed.
fn kill_in_a_loop(settings: &Settings, seed: u64, kills: usize, adoption: Adoption) -> io::Result<Killed> {
    let mut dice = Dice::new(seed);
    let mut killed = Killed::default();
    for round in 0..kills {
        let mut node = Node::spawn(settings, &format!("life{round}"))?;
        // Every other node is killed with starts in flight, the others possibly during adoption.
        if round % 2 == 0 {
            node.until_acknowledged(1, START_WITHIN)?;
        } else {
            node.until_ready(START_WITHIN)?;
        }
        // Without this, a busy machine kills every node before the lease of the one before it has expired.
        if adoption == Adoption::AfterLease && round % 4 == 1 {
            node.until_adopted(START_WITHIN)?;
        }
        // The random moment is the fault: this waits for nothing.
        std::thread::sleep(dice.kill_after());
        let acknowledged = node.kill()?;
        killed.kills += 1;
        killed.while_loaded += usize::from(!acknowledged.is_empty());
        killed.acknowledged.extend(acknowledged);
    }
    Ok(killed)
}
