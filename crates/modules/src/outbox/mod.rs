//! Where messages of the outbox go: which topic leaves by which adapter, how often it is tried, and how long it may take.
//!
//! ```no_run
//! use backstitch_modules::outbox::{Config, TopicConfig};
//!
//! # fn run(config: &Config) -> Result<(), Box<dyn std::error::Error>> {
//! config.check()?;
//! for (name, topic) in &config.topics {
//!     let sink = topic.sink(name)?;
//! }
//! # Ok(())
//! # }
//! ```

mod adapter;
mod config;

pub use crate::settings::Secret;
pub use adapter::{Adapter, Http, Log, Nats};
pub use config::{BadConfig, Config, Pace, TopicConfig};
