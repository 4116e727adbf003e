//! Lifecycles on real databases.

mod claims;
mod conflicts;
mod declares;
mod driven;
mod guards;
mod messages;
mod parked;
mod plans;
mod retention;
mod runs;
mod services;
mod stage;
mod takeover;
mod workers;
