//! The console as people use it: the real server, a real browser, on live data.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/population.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod population;
#[path = "../console/services.rs"]
mod services;
#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use the rest")]
mod support;

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
