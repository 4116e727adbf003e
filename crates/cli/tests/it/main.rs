//! The binary over real sockets, on SQLite and PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acceptance_seed_000;
mod acceptance_seed_001;
mod acceptance_seed_003;
mod acceptance_seed_004;
mod bench;
mod check_command;
mod cli;
mod console;
mod console_in_browser;
mod demo;
mod doctor;
mod fuzz;
mod guides;
mod http;
mod services;
mod statements;
mod stored_history;
mod support;
