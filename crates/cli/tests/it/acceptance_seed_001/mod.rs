//! Orders against their requirements, clause by clause: the real binary over real HTTP, with simulated services, on
//! `SQLite` and `PostgreSQL`.

mod shop;
mod stage;

mod bad_input;
mod bad_services;
mod configuration;
mod confirmation;
mod consistency;
mod edge_cases;
mod escalation;
mod records;
mod recovery;
mod rollback;
mod timeouts;
