//! A look at the whole on one machine: services to call, and what happens when they fail.

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

pub(crate) use tour::{Plan, play};
