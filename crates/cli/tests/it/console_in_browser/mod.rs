//! The console in a real browser, with a real server and live data.

mod actions;
mod comfort;
mod configuration;
mod lifecycles;
mod live;
mod markup;
mod messages;
mod screen;
mod scriptless;
mod sessions;
mod stage;
mod walks;
mod webhooks;
