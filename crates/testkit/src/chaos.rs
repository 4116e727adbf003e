//! Real faults: processes that are killed, suspended and cut off from their store while sagas run, and one check
//! afterwards
//! that everything still holds.

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
