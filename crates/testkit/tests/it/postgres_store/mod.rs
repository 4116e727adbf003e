//! Tests specific to PostgreSQL: other sessions, other nodes, broken connections, and SQL functions.

mod batches;
mod encryption;
mod failover;
mod flat_list;
mod flat_outbox;
mod flat_survey;
mod functions;
mod listening;
mod lost_answers;
mod network;
mod nodes;
mod ordering;
mod pooling;
mod rules;
mod schema;
mod schemas;
mod silence;
mod skewed_outbox;
mod support;
mod versions;
mod writable;
