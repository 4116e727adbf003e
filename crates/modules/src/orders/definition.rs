//! How orders are worked off, as a definition; and the settings read back from one.

use std::collections::BTreeMap;
use std::time::Duration;

use backstitch::kernel::saga::draft::DraftCompensation;
use backstitch::{Draft, DraftStep, Payload, Performer, Retry};
use serde::{Deserialize, Serialize};

use super::service::{Endpoint, Service, Services, Timeouts};

/// The name of the definition that orders are sagas of.
pub const DEFINITION: &str = "orders";

/// How a rollback is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// How often it is tried again.
    pub retries: u32,
    /// The wait before the first retry; it doubles from one to the next, up to half a minute.
    pub delay: Duration,
    /// How long one try may take.
    pub timeout: Duration,
}

const LONGEST_DELAY: Duration = Duration::from_secs(30);

impl Default for Rollback {
    fn default() -> Self {
        Self { retries: 5, delay: Duration::from_secs(1), timeout: Duration::from_secs(30) }
    }
}

/// A call as the definition keeps it.
#[derive(Serialize, Deserialize)]
struct Call {
    http: Http,
}

#[derive(Serialize, Deserialize)]
struct Http {
    method: String,
    url: String,
}

/// The definition with these settings; its version is given when it is declared.
pub(super) fn draft(
    services: &Services,
    timeouts: &Timeouts,
    rollback: Rollback,
) -> Result<Draft, serde_json::Error> {
    let mut steps = Vec::with_capacity(services.order.len());
    for service in &services.order {
        let Some(endpoint) = services.endpoints.get(service) else { continue };
        let retry = Retry::exponential(rollback.retries, rollback.delay);
        steps.push(DraftStep {
            id: service.name().to_owned(),
            title: None,
            // Each service answers before the next one is called.
            depends_on: None,
            action: post(&endpoint.url)?,
            timeout: timeouts.of(*service),
            queue_timeout: None,
            retry: match endpoint.retry.count {
                0 => Retry::none(),
                _ => endpoint.retry.clone().within(timeouts.of(*service)),
            },
            compensate: Some(DraftCompensation {
                action: post(&endpoint.rollback_url)?,
                timeout: rollback.timeout,
                queue_timeout: None,
                retry: retry.with_cap(LONGEST_DELAY.max(rollback.delay)),
            }),
            concurrency: None,
        });
    }
    let title = Some("Confirm an order".to_owned());
    // What cannot be undone at one service is no reason to leave the others as they are.
    Ok(Draft { title, continue_on_compensation_failure: true, steps, ..Draft::new(DEFINITION) })
}

fn post(url: &str) -> Result<Performer, serde_json::Error> {
    let http = Http { method: "POST".to_owned(), url: url.to_owned() };
    Payload::encode(&Call { http }).map(Performer::Call)
}

/// The settings that a definition was made from.
pub(super) fn settings(draft: &Draft) -> Option<(Services, Timeouts)> {
    let mut services = Services { order: Vec::new(), endpoints: BTreeMap::new() };
    let mut timeouts = BTreeMap::new();
    for step in &draft.steps {
        let service = Service::named(&step.id)?;
        let rollback_url = url(&step.compensate.as_ref()?.action)?;
        services.order.push(service);
        let retry = Retry { within: None, ..step.retry.clone() };
        services.endpoints.insert(service, Endpoint { url: url(&step.action)?, rollback_url, retry });
        timeouts.insert(service, step.timeout);
    }
    Some((services, Timeouts(timeouts)))
}

fn url(performer: &Performer) -> Option<String> {
    match performer {
        Performer::Call(call) => call.decode::<Call>().ok().map(|call| call.http.url),
        Performer::Code | Performer::Worker { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(order: &[Service]) -> Services {
        let endpoint = |service: Service| Endpoint {
            url: format!("http://localhost/{}", service.name()),
            rollback_url: format!("http://localhost/{}/rollback", service.name()),
            retry: match service {
                Service::Inventory => Retry::exponential(2, Duration::from_secs(1)),
                Service::Payment | Service::Logistics => Retry::none(),
            },
        };
        let endpoints = Service::ALL.into_iter().map(|service| (service, endpoint(service)));
        Services { order: order.to_vec(), endpoints: endpoints.collect() }
    }

    #[test]
    fn settings_come_back_from_the_definition_they_made() {
        let services = services(&[Service::Logistics, Service::Payment, Service::Inventory]);
        let mut timeouts = Timeouts::default();
        timeouts.0.insert(Service::Inventory, Duration::from_millis(1500));
        let draft = draft(&services, &timeouts, Rollback::default()).unwrap();
        draft.clone().check().unwrap();
        assert_eq!(settings(&draft), Some((services, timeouts)));
    }

    #[test]
    fn services_are_called_in_turn_and_retried_as_configured() {
        let draft = draft(&services(&Service::ALL), &Timeouts::default(), Rollback::default()).unwrap();
        let definition = draft.check().unwrap();
        assert!(definition.continues_past_failed_compensation());
        let waits: Vec<u64> = definition.steps().iter().map(|step| step.timeout.as_secs()).collect();
        assert_eq!(waits, [30, 60, 120]);
        for (position, step) in definition.steps().iter().enumerate() {
            assert_eq!(step.depends_on, position.checked_sub(1).into_iter().collect::<Vec<_>>());
            let retried = step.id.as_str() == "inventory";
            assert_eq!(step.retry.count, if retried { 2 } else { 0 });
            assert_eq!(step.retry.within, retried.then_some(step.timeout));
            assert_eq!(step.compensation.as_ref().map(|undo| undo.retry.count), Some(5));
        }
    }
}
