//! Starts that come as messages of NATS `JetStream`.
//!
//! A [`Consumer`] takes them from a stream, begins what they ask for, and acknowledges each once the engine has nothing
//! left to do for it. Whatever happens before that, the broker delivers the message again, and the work goes on at the state
//! it has come to.
//!
//! ```no_run
//! use backstitch_modules::lifecycles::Lifecycles;
//! use backstitch_modules::lifecycles::nats::{Config, Consumer};
//!
//! # async fn run(lifecycles: Lifecycles, config: Config) -> Result<(), Box<dyn std::error::Error>> {
//! let consumer = Consumer::new(&lifecycles, config)?;
//! let closing = async { /* until the process is asked to end */ };
//! consumer.run(closing).await;
//! # Ok(())
//! # }
//! ```
//!
//! A message is an object: `key` says which one (`site_id` does too, for sites), `correlation_id` links traces, and the rest
//! is what actions can read. One that is anything else is kept as a [dead letter](super::Lifecycles::dead_letters), and
//! not delivered again.

mod config;
mod consumer;
mod delivery;
mod durable;
mod line;
mod request;

pub use config::{BadConfig, Config};
pub use consumer::Consumer;
