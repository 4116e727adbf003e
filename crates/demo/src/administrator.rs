//! The operator who receives alerts and resolves failed rollbacks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use super::api::Api;
use super::http::Http;
use super::services::{Phase, Service, Services};
use crate::Failure;

/// Poll interval.
const GLANCE: Duration = Duration::from_millis(50);

/// The file of alerts.
pub(super) fn inbox(folder: &Path) -> PathBuf {
    folder.join("alerts.jsonl")
}

pub(super) struct Administrator {
    pub(super) inbox: PathBuf,
}

#[derive(Deserialize)]
struct Alert {
    tx_id: Option<String>,
    summary: String,
}

impl Administrator {
    /// Waits until the server has alerted about an order, and returns the alert.
    pub(super) async fn told(&self, api: &Api, order: &str) -> Result<String, Failure> {
        while !api.has_told_about(order).await? {
            tokio::time::sleep(GLANCE).await;
        }
        for line in std::fs::read_to_string(&self.inbox)?.lines() {
            let alert: Alert = serde_json::from_str(line)?;
            if alert.tx_id.as_deref() == Some(order) {
                return Ok(alert.summary);
            }
        }
        Err(format!("{} has no alert about {order}", self.inbox.display()).into())
    }

    /// Undoes at the service what the order could not undo.
    pub(super) async fn undo_by_hand(
        &self,
        services: &Services,
        order: &str,
        service: Service,
    ) -> Result<(), Failure> {
        let step = service.name();
        let call = json!({ "saga_id": order, "step": step, "phase": "undo", "attempt": 1, "input": null });
        let key = format!("by hand: {order}");
        let url = services.url(service, Phase::Undo);
        Http::new().ask(Method::POST, &url, Some(("idempotency-key", &key)), Some(&call)).await?;
        Ok(())
    }
}
