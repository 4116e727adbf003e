//! The server of Backstitch: its engine over HTTP, with keys, limits, streams and metrics.
//!
//! The binary `backstitch` is made of it; tests and demonstrations embed it.
//!
//! ```
//! use backstitch_server::{Config, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sagas.db");
//! let config = Config {
//!     listen: ([127, 0, 0, 1], 0).into(), // a free port
//!     db: format!("sqlite:{}", path.display()),
//!     ..Config::default()
//! };
//! let server = Server::bind(config).await?;
//! println!("http://{}/docs", server.address());
//! // server.engine().register(…)?;
//! server.run(async { /* until something asks it to stop */ }).await?;
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe: use the log")]

pub mod admin;
mod app;
mod audit;
mod auth;
pub mod config;
mod console;
mod database;
mod doctor;
mod http;
mod lifecycles;
mod parked;
mod problem;
mod routes;
mod server;
pub mod telemetry;
mod watch;
mod webhooks;

pub use config::Config;
pub use server::{Error, Server};
