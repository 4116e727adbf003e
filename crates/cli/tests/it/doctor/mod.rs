//! The doctor: every finding with the real binary over real HTTP, on `SQLite` and `PostgreSQL`; and none on a healthy server.

mod stage;

mod advice;
mod answers;
mod database;
mod messages;
mod parked;
mod products;
mod retention;
mod room;
mod sagas;
mod well;
mod writes;
