//! Starts that come as messages of a real NATS server, on real databases.

mod broker;
mod broker_faults;
mod dead_letters;
mod kills;
mod nodes;
mod proto;
mod requests;
mod services;
mod stage;
