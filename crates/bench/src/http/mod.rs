//! Load over HTTP on a running or a new server, compared with the limits for orders.
//!
//! A closed loop: each user starts the next saga or order when the last one has ended.

pub(super) mod client;
pub(super) mod figures;
pub(super) mod orders;
pub(super) mod program;
mod recovery;
mod rolling;
mod sagas;
pub(super) mod services;
mod streams;

use std::time::Duration;

use super::Failure;
use client::Client;
use figures::{Figure, Table};
use program::Program;
use services::Services;

/// Options of the load over HTTP.
#[derive(clap::Args)]
pub(crate) struct OverHttp {
    /// Drive a server over HTTP: the one at this address, or by default a new one on `--store`.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = OWN)]
    http: Option<String>,
    /// An admin's API key, if the server needs one.
    #[arg(long, env = "BACKSTITCH_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Concurrent users of orders.
    #[arg(long, default_value_t = 100)]
    users: usize,
    /// Idle open streams besides the load.
    #[arg(long, default_value_t = 0)]
    idle_streams: usize,
}

const OWN: &str = "own";

impl OverHttp {
    /// Whether load over HTTP was requested.
    pub(super) fn is_asked(&self) -> bool {
        self.http.is_some()
    }
}

/// Drives the server and prints the measurements.
pub(super) async fn run(args: &super::Args) -> Result<(), Failure> {
    let http = &args.http;
    let time = Duration::from_secs(args.seconds);
    let services = Services::start().await?;
    let mut table = Table::new(args.json);
    let own = match http.http.as_deref() {
        Some(OWN) | None => Some(Program::start(&args.store).await?),
        Some(_) => None,
    };
    let address = match (&own, &http.http) {
        (Some(own), _) => own.address(),
        (None, Some(url)) => client::address(url).await?,
        (None, None) => return Err("no server is named".into()),
    };
    let client = Client::new(address, http.key.clone());
    sagas::declare(&client, &services).await?;
    let idle = streams::open_idle(&client, http.idle_streams).await?;
    for &concurrency in &args.concurrency {
        table.print(&sagas::measure(&client, concurrency, time, own.as_ref()).await?)?;
    }
    let before = orders::configure(&client, &services).await?;
    for figure in orders::measure(&client, http.users, time).await? {
        table.print(&figure)?;
    }
    for figure in orders::rolled_back(&client).await? {
        table.print(&figure)?;
    }
    table.print(&orders::changed_without_restart(&client, &services).await?)?;
    orders::restore(&client, before).await?;
    if let Some(own) = &own {
        table.print(&Figure::of_memory(own))?;
    }
    drop(idle);
    if let Some(own) = own {
        table.print(&recovery::measure(own, &services, http.users).await?)?;
    }
    if http.http.as_deref() == Some(OWN) && args.store.starts_with("postgres") {
        table.print(&rolling::measure(&args.store, &services, http.users, time).await?)?;
    }
    table.end()
}
