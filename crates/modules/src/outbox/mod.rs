//! The outbox as a product: order requests, and where messages go: which topic leaves by which adapter, how often it is
//! tried, and how long it may take.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use backstitch::clock::{Clock, SystemClock};
//! use backstitch::outbox::Routes;
//! use backstitch_modules::outbox::Config;
//!
//! # fn run(config: &Config) -> Result<Routes, Box<dyn std::error::Error>> {
//! config.check()?;
//! let clock: Arc<dyn Clock> = Arc::new(SystemClock);
//! let mut routes = Routes::none();
//! for (name, topic) in &config.topics {
//!     routes = routes.with(name, topic.route(name, &clock)?);
//! }
//! # Ok(routes)
//! # }
//! ```

mod adapter;
mod config;
pub mod counts;
mod differences;
mod do_order;

pub use crate::settings::Secret;
pub use adapter::{Adapter, Http, Log, Nats};
pub use config::{BadConfig, Config, Pace, SagaEvents, TopicConfig};
pub use do_order::{Answer, Conflict, ORDERS, OrderRequest, Unreadable};
