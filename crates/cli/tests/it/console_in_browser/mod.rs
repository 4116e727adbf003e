//! The console as people use it: the real server, a real browser, on live data.

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
