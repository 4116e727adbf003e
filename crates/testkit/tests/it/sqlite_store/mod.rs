//! Tests specific to SQLite files.

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
