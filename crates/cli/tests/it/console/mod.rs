//! The console as a browser uses it: the real binary over real HTTP, on `SQLite` and `PostgreSQL`.

mod audit;
mod back;
pub(crate) mod browser;
pub(crate) mod services;
mod stage;

mod configuration;
mod finding;
mod forms;
mod ids;
mod lifecycles;
mod live;
mod markup;
mod messages;
mod overview;
mod parked;
mod plans;
mod roles;
mod sagas;
mod signing_in;
mod webhooks;
