//! The outbox against its requirements, section by section: the real binary over real HTTP, with a scripted broker,
//! on `SQLite` and `PostgreSQL`.

mod broker;
mod desk;

mod crashes;
mod observability;
mod raw_sql;
mod requests;
mod saga_events;
mod sending;
mod tables;
mod together;
