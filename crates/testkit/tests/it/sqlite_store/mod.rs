//! The store in a file: what only a file can do, and what can only happen to a file.

mod crowded_outbox;
mod ending;
mod faults;
mod flat_list;
mod flat_outbox;
mod flat_survey;
mod queries;
mod rules;
mod support;
mod transactions;
