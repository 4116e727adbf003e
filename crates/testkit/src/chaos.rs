//! Faults for real: processes that are killed, stopped and cut off from their store while sagas run, and the one
//! check that is asked afterwards whether everything still holds.

pub mod backlog;
pub mod check;
pub mod faulty;
pub mod ledger;
mod lines;
pub mod load;
pub mod messages;
pub mod process;
pub mod rounds;
pub mod sagas;
mod tally;

/// A setting of long runs, from the environment; the default is what the test suite uses.
#[must_use]
pub fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
