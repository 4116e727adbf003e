//! How the server of the demonstration is set: everything in one folder, and times that are short enough to watch.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::administrator;
use super::hosting::{ERRANDS, Hosting};
use super::services::{Phase, Service, Services};
use crate::Config;
use crate::config;

/// How long a service may take.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a rollback is tried again, so that a failing one is given up while somebody watches.
pub(super) const ROLLBACK_RETRIES: u32 = 2;
const ROLLBACK_DELAY: Duration = Duration::from_millis(150);

pub(super) fn config(listen: SocketAddr, folder: &Path, services: &Services, hosting: &Hosting) -> Config {
    let service = |service| config::Service {
        url: Some(services.url(service, Phase::Do)),
        rollback_url: Some(services.url(service, Phase::Undo)),
        timeout: SERVICE_TIMEOUT,
    };
    Config {
        listen,
        db: format!("sqlite:{}", folder.join("backstitch.db").display()),
        orders: config::Orders {
            payment: service(Service::Payment),
            inventory: service(Service::Inventory),
            logistics: service(Service::Logistics),
            rollback_retries: ROLLBACK_RETRIES,
            rollback_delay: ROLLBACK_DELAY,
            rollback_timeout: SERVICE_TIMEOUT,
        },
        lifecycle: config::Lifecycle { sites: sites(hosting), ..config::Lifecycle::default() },
        alerts: config::Alerts {
            file: Some(administrator::inbox(folder).display().to_string()),
            ..config::Alerts::default()
        },
        ..Config::default()
    }
}

fn sites(hosting: &Hosting) -> config::Sites {
    let [resolve_source, create_project, create_hook] = ERRANDS.map(|errand| Some(hosting.url(errand)));
    config::Sites {
        resolve_source,
        create_project,
        create_hook,
        timeout: SERVICE_TIMEOUT,
        ..config::Sites::default()
    }
}
