//! Starts that come as messages of a real NATS server, on real databases.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broker;
mod broker_faults;
mod dead_letters;
mod kills;
mod nodes;
mod proto;
mod requests;
mod services;
mod stage;
