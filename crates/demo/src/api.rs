//! Requests of the demo to the server.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::Http;
use super::progress::Progress;
use super::services::Service;
use crate::Failure;

/// Poll interval for a site's state.
const GLANCE: Duration = Duration::from_millis(20);

pub(super) struct Api {
    http: Http,
    address: SocketAddr,
}

#[derive(Deserialize)]
struct Confirmed {
    tx_id: String,
}

#[derive(Deserialize)]
struct Order {
    outcome: String,
}

#[derive(Deserialize)]
struct Log {
    items: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    service: Option<String>,
    status: String,
}

#[derive(Deserialize)]
struct Alerts {
    items: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    tx_id: Option<String>,
    /// The first channel that delivered it.
    channel: Option<String>,
}

#[derive(Deserialize)]
struct Site {
    state: String,
    error_kind: Option<String>,
}

#[derive(Deserialize)]
struct States {
    items: Vec<StateEvent>,
}

#[derive(Deserialize)]
struct StateEvent {
    state: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    detail: String,
}

impl Api {
    pub(super) fn at(address: SocketAddr) -> Self {
        Self { http: Http::new(), address }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.http.ask(method, &format!("http://{}{path}", self.address), None, body).await
    }

    /// Confirms an order of these items and returns its transaction id.
    pub(super) async fn confirm(&self, order: &str, skus: &[&str]) -> Result<String, Failure> {
        let items: Vec<_> = skus.iter().map(|sku| json!({ "sku": sku, "quantity": 1 })).collect();
        let order = json!({ "order_id": order, "customer_id": "ada", "items": items, "amount": "19.90" });
        let confirmed = self.ask(Method::POST, "/v1/orders", Some(&order)).await?;
        Ok(serde_json::from_value::<Confirmed>(confirmed)?.tx_id)
    }

    /// The outcome shown to the customer.
    pub(super) async fn outcome(&self, order: &str) -> Result<String, Failure> {
        let order = self.ask(Method::GET, &format!("/v1/orders/{order}"), None).await?;
        Ok(serde_json::from_value::<Order>(order)?.outcome)
    }

    /// The transaction log on one line: `payment U S · inventory U F · payment R · D`.
    pub(super) async fn log(&self, order: &str) -> Result<String, Failure> {
        let log = self.ask(Method::GET, &format!("/v1/orders/{order}/log"), None).await?;
        Ok(on_one_line(&serde_json::from_value::<Log>(log)?.items))
    }

    /// Follows an order from its beginning.
    pub(super) async fn follow(&self, order: &str) -> Result<Progress, Failure> {
        let url = format!("http://{}/v1/orders/{order}/events", self.address);
        Progress::open(self.http.clone(), url).await
    }

    /// Marks a failed rollback as done by hand.
    pub(super) async fn resolve_as_done(&self, order: &str, step: &str, note: &str) -> Result<(), Failure> {
        let resolution = json!({ "action": "done", "note": note });
        let path = format!("/v1/sagas/{order}/steps/{step}/resolve");
        self.ask(Method::POST, &path, Some(&resolution)).await?;
        Ok(())
    }

    /// Applies this order of services to new orders.
    pub(super) async fn apply_order(&self, services: [Service; 3]) -> Result<(), Failure> {
        let change = json!({ "order": services });
        self.ask(Method::PUT, "/v1/admin/config/services", Some(&change)).await?;
        self.ask(Method::POST, "/v1/admin/config/services/apply", None).await?;
        Ok(())
    }

    /// Whether an alert about the order was delivered, besides the log.
    pub(super) async fn has_told_about(&self, order: &str) -> Result<bool, Failure> {
        let alerts = self.ask(Method::GET, "/v1/admin/alerts", None).await?;
        let alerts: Alerts = serde_json::from_value(alerts)?;
        let about = |alert: &&Alert| alert.tx_id.as_deref() == Some(order);
        Ok(alerts.items.iter().find(about).is_some_and(|alert| alert.channel.is_some()))
    }

    /// Starts a site, or starts it again.
    pub(super) async fn provision(&self, site: &str, owner: &str) -> Result<(), Failure> {
        let request = json!({ "site_id": site, "owner": owner });
        self.ask(Method::POST, "/v1/sites", Some(&request)).await.map(|_| ())
    }

    /// Waits for the first of these states of a site.
    pub(super) async fn site_in(&self, site: &str, states: &[&str]) -> Result<String, Failure> {
        loop {
            let state = self.site(site).await?.state;
            if states.contains(&state.as_str()) {
                return Ok(state);
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Why a site failed.
    pub(super) async fn error_kind_of(&self, site: &str) -> Result<String, Failure> {
        Ok(self.site(site).await?.error_kind.unwrap_or_default())
    }

    async fn site(&self, site: &str) -> Result<Site, Failure> {
        Ok(serde_json::from_value(self.ask(Method::GET, &format!("/v1/sites/{site}"), None).await?)?)
    }

    /// The states of a site on one line.
    pub(super) async fn states_of(&self, site: &str) -> Result<String, Failure> {
        let path = format!("/v1/lifecycles/site-provisioning/{site}/log");
        let log: States = serde_json::from_value(self.ask(Method::GET, &path, None).await?)?;
        let states: Vec<String> = log.items.into_iter().filter_map(|event| event.state).collect();
        Ok(states.join(" → "))
    }

    /// Sends a late transition, as a webhook would, and returns the refusal.
    pub(super) async fn late_webhook(&self, site: &str, state: &str) -> Result<String, Failure> {
        let url = format!("http://{}/v1/lifecycles/site-provisioning/{site}/transition", self.address);
        let answer = self.http.open(Method::POST, &url, None, Some(&json!({ "to": state }))).await?;
        if answer.status() != StatusCode::CONFLICT {
            return Err(format!("{url} was answered with {}", answer.status()).into());
        }
        let refused = answer.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice::<Refused>(&refused)?.detail)
    }
}

fn on_one_line(entries: &[Entry]) -> String {
    let mut line = String::new();
    let mut last = None;
    for entry in entries {
        let separator = if line.is_empty() { "" } else { " · " };
        // Writing to a string cannot fail.
        let _ = match &entry.service {
            None => write!(line, "{separator}{}", entry.status),
            Some(service) if last == Some(service) => write!(line, " {}", entry.status),
            Some(service) => write!(line, "{separator}{service} {}", entry.status),
        };
        last = entry.service.as_ref();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_fits_on_one_line() {
        let entry = |service: &str, status: &str| Entry {
            service: Some(service.to_owned()).filter(|service| !service.is_empty()),
            status: status.to_owned(),
        };
        let log = [
            entry("payment", "U"),
            entry("payment", "S"),
            entry("inventory", "U"),
            entry("inventory", "F"),
            entry("payment", "R"),
            entry("", "D"),
        ];
        assert_eq!(on_one_line(&log), "payment U S · inventory U F · payment R · D");
    }
}
