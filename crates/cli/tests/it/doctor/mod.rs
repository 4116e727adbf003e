//! The doctor: every finding provoked for real, on the real binary over real HTTP, on `SQLite` and `PostgreSQL`; and silence
//! where all is well.

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
