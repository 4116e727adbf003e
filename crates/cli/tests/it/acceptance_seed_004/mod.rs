//! Lifecycles against seed 004, statement by statement: the real binary over real HTTP, with scripted
//! services, on `SQLite` and `PostgreSQL`.

mod services;
mod stage;

mod abandon;
mod bad_input;
mod broker;
mod crashes;
mod driven;
mod errors;
mod machines;
mod observability;
mod roles;
mod starts;
mod states;
mod streams;
mod tables;
mod transitions;
