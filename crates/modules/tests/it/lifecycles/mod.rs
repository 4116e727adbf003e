//! Lifecycles on real databases.

mod abandon;
mod claims;
mod conflicts;
mod declares;
mod driven;
mod guards;
mod messages;
mod order;
mod parked;
mod plans;
mod retention;
mod runs;
mod services;
mod stage;
mod takeover;
mod workers;
