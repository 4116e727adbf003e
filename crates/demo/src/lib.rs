//! The demo: a server, simulated services, and seven scenes with failures.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe: use `screen`")]

mod administrator;
mod api;
mod findings;
mod hosting;
mod http;
mod process;
mod progress;
mod scenes;
mod screen;
pub mod services;
mod settings;
mod stage;
mod tour;
mod traffic;

pub use tour::{Plan, play};

/// Why the tour ended early; the message is shown to the user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
