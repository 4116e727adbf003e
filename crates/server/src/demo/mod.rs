//! A look at the whole on one machine: services to call, and what happens when they fail.

pub mod services;
