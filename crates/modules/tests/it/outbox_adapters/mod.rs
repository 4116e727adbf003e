//! The adapters of the outbox against receivers that behave, and receivers that do not.

mod http;
mod nats;
mod nats_faults;
mod nats_logins;
mod proxy;
mod settings;
pub(crate) mod stage;
