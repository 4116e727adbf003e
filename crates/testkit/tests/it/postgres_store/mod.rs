//! What only PostgreSQL has: other sessions, other nodes, connections that break, and functions of its own.

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
