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
