//! The person who is told when a rollback cannot be finished, and who finishes it.

use hyper::Method;
use serde_json::json;

use super::http::Http;
use super::services::{Phase, Service, Services};
use crate::commands::Failure;

/// Undoes at the service itself what an order could not undo.
pub(super) async fn undo_by_hand(services: &Services, order: &str, service: Service) -> Result<(), Failure> {
    let call =
        json!({ "saga_id": order, "step": service.name(), "phase": "undo", "attempt": 1, "input": null });
    let key = format!("by hand: {order}");
    let url = services.url(service, Phase::Undo);
    Http::new().ask(Method::POST, &url, Some(("idempotency-key", &key)), Some(&call)).await?;
    Ok(())
}
