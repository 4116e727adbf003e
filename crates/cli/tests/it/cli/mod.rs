//! The command line against a real server, on both stores where the store matters.

mod declared;
mod doctor;
mod errors;
mod escapes;
mod every_verb;
mod follow;
mod help;
mod keys;
mod lifecycles;
mod lost_answers;
mod operations;
mod outbox;
mod products;
mod sagas;
mod stage;
mod stub;
mod terminal;
mod terminals;
mod webhooks;
