//! The saga library against its requirements, clause by clause, on memory, `SQLite` and `PostgreSQL`.

mod stage;

mod concepts;
mod definition;
mod errors;
mod events;
mod limits;
mod monitoring;
mod practices;
mod states;
mod usage;
