//! Webhooks against their requirements, section by section: the real binary over real HTTP, with scripted receivers,
//! on `SQLite` and `PostgreSQL`.

mod receiver;
mod stage;

mod bad_input;
mod crashes;
mod dead_letters;
mod endpoints;
mod events;
mod limits;
mod pauses;
mod retries;
mod signatures;
mod subscriptions;
mod workers;
