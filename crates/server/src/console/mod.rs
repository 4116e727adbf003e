//! The console: pages for people, rendered here, readable without a script.
//!
//! Its pages ask the same parts as the API does. What they change is sent by forms, which carry a token of the session and are
//! recorded as requests to the API are.

mod address;
mod alerts;
mod assets;
mod audit;
mod cookie;
mod definitions;
mod doctor;
mod documents;
mod done;
mod drawing;
mod excerpt;
mod find;
mod form;
mod gate;
mod json_text;
mod lifecycles;
mod line_diff;
mod live;
mod log_pages;
mod orders;
pub(crate) mod origin;
mod outbox;
mod outcomes;
mod overview;
mod page;
mod parked;
mod parts;
mod plot;
mod pulse;
mod sagas;
mod sign_in;
mod visitor;
mod webhooks;
mod whole;

pub(crate) mod routes;

pub(crate) use gate::{as_page, back, guard, refuse};
pub(crate) use outcomes::Outcomes;
pub(crate) use page::nothing_here;
pub(crate) use pulse::Pulse;
