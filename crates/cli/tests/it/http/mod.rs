//! The server over real sockets.

mod audit;
mod bad_input;
mod configuration;
mod connections;
mod definitions;
mod description;
mod failover;
mod header_values;
mod health;
mod jobs;
mod keys;
mod long_answers;
mod metrics;
mod operations;
mod postgres;
mod process;
mod rates;
mod raw_requests;
mod retention;
mod roles;
mod sagas;
mod shutdown;
mod silent_database;
mod strange_values;
mod streams;
mod support;
