//! The server over real sockets.

mod bad_input;
mod configuration;
mod connections;
mod description;
mod keys;
mod metrics;
mod operations;
mod postgres;
mod process;
mod roles;
mod sagas;
mod shutdown;
mod streams;
mod support;
