//! The server's configuration for the demo: one directory and short times.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;

use super::administrator;
use super::hosting::{ERRANDS, Hosting};
use super::services::{Phase, Service, Services};
use crate::Failure;

/// The services' timeout.
const SERVICE_TIMEOUT: &str = "3s";
/// Few and fast, so that the user sees a failing rollback run out of retries.
pub(super) const ROLLBACK_RETRIES: u32 = 2;
const ROLLBACK_DELAY: &str = "150ms";

/// The text of the configuration file.
pub(super) fn toml(
    listen: SocketAddr,
    folder: &Path,
    services: &Services,
    hosting: &Hosting,
) -> Result<String, Failure> {
    let service = |service| {
        json!({
            "url": services.url(service, Phase::Do),
            "rollback_url": services.url(service, Phase::Undo),
            "timeout": SERVICE_TIMEOUT,
        })
    };
    let [resolve_source, create_project, create_hook] = ERRANDS.map(|errand| hosting.url(errand));
    Ok(toml::to_string(&json!({
        "listen": listen.to_string(),
        "db": format!("sqlite:{}", folder.join("backstitch.db").display()),
        "orders": {
            "payment": service(Service::Payment),
            "inventory": service(Service::Inventory),
            "logistics": service(Service::Logistics),
            "rollback_retries": ROLLBACK_RETRIES,
            "rollback_delay": ROLLBACK_DELAY,
            "rollback_timeout": SERVICE_TIMEOUT,
        },
        "lifecycle": {
            "sites": {
                "resolve_source": resolve_source,
                "create_project": create_project,
                "create_hook": create_hook,
                "timeout": SERVICE_TIMEOUT,
            },
        },
        "alerts": { "file": administrator::inbox(folder).display().to_string() },
    }))?)
}
