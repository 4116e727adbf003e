//! The three services an order needs: in which order they are called, where they are, and how long they may take.

use std::collections::BTreeMap;
use std::time::Duration;

use backstitch::{Problems, Retry};
use backstitch_api::validate::WrittenDuration;
use serde::{Deserialize, Serialize};

use super::change::{ByService, ServiceOrder, ServiceRetry, ServicesChange, TimeoutsChange};
use super::error::Mistakes;
use crate::http_url::{HttpUrl, check_url};
use crate::masked_url::masked_url;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Charges and refunds.
    Payment,
    /// Reserves and releases.
    Inventory,
    /// Schedules and cancels.
    Logistics,
}

impl Service {
    /// All of them, in the order they are called unless somebody says otherwise.
    pub const ALL: [Self; 3] = [Self::Payment, Self::Inventory, Self::Logistics];

    /// Its name, which is also its step's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Inventory => "inventory",
            Self::Logistics => "logistics",
        }
    }

    /// The service of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.name() == name)
    }
}

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Called to do its part.
    pub url: String,
    /// Called to undo it.
    pub rollback_url: String,
    /// How often it is called again. All attempts together take no longer than its timeout.
    #[serde(default = "Retry::none", skip_serializing_if = "is_no_retry")]
    pub retry: Retry,
}

fn is_no_retry(retry: &Retry) -> bool {
    retry.count == 0
}

impl Endpoint {
    /// The policy that fills in what a service's own does not say.
    #[must_use]
    pub fn usual_retry() -> Retry {
        Retry::exponential(0, Duration::from_secs(1))
    }
}

/// The services in the order they are called, with where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Services {
    /// Each service once.
    pub order: Vec<Service>,
    /// Of each service.
    pub endpoints: BTreeMap<Service, Endpoint>,
}

impl Services {
    /// The same for readers who may not see tokens in URLs.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mut masked = self.clone();
        for endpoint in masked.endpoints.values_mut() {
            endpoint.url = masked_url(&endpoint.url);
            endpoint.rollback_url = masked_url(&endpoint.rollback_url);
        }
        masked
    }
}

impl ServicesChange {
    /// The services once this is changed about `before`.
    ///
    /// # Errors
    /// Every mistake at once.
    pub fn over(self, before: Option<&Services>) -> Result<Services, Problems> {
        let mut mistakes = Mistakes::default();
        if self.order.is_none() && self.endpoints.0.is_empty() {
            mistakes.add("", "changes nothing: give `order`, `endpoints` or both");
        }
        let order = match self.order {
            Some(ServiceOrder(order)) => order,
            None => before.map_or_else(|| Service::ALL.to_vec(), |before| before.order.clone()),
        };
        let mut endpoints = BTreeMap::new();
        for service in Service::ALL {
            let known = before.and_then(|before| before.endpoints.get(&service));
            let change = self.endpoints.0.get(&service).cloned().unwrap_or_default();
            let place = format!("endpoints.{}", service.name());
            let url = address(&mut mistakes, &format!("{place}.url"), change.url, known.map(|it| &it.url));
            let rollback = known.map(|it| &it.rollback_url);
            let rollback_url =
                address(&mut mistakes, &format!("{place}.rollback_url"), change.rollback_url, rollback);
            let retry = retry(&mut mistakes, &place, change.retry.as_ref(), known.map(|it| &it.retry));
            endpoints.insert(service, Endpoint { url, rollback_url, retry });
        }
        mistakes.or(Services { order, endpoints })
    }
}

fn address(mistakes: &mut Mistakes, place: &str, new: Option<HttpUrl>, known: Option<&String>) -> String {
    let Some(text) = new.map(|HttpUrl(url)| url).or_else(|| known.cloned()) else {
        mistakes.add(place, "is missing: nobody has said before where it is");
        return String::new();
    };
    // Addresses of the configuration come here unchecked.
    if let Err(why) = check_url(&text) {
        mistakes.add(place, why);
    }
    text
}

fn retry(mistakes: &mut Mistakes, place: &str, new: Option<&ServiceRetry>, known: Option<&Retry>) -> Retry {
    let Some(written) = new else { return known.cloned().unwrap_or_else(Retry::none) };
    written.policy(place).unwrap_or_else(|Problems(found)| {
        for problem in found {
            mistakes.add(problem.place, problem.message);
        }
        Retry::none()
    })
}

/// How long each service may take before its order is rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts(pub BTreeMap<Service, Duration>);

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = [(Service::Payment, 30), (Service::Inventory, 60), (Service::Logistics, 120)];
        Self(seconds.into_iter().map(|(service, seconds)| (service, Duration::from_secs(seconds))).collect())
    }
}

impl Timeouts {
    /// Of one service.
    #[must_use]
    pub fn of(&self, service: Service) -> Duration {
        self.0.get(&service).copied().unwrap_or_else(|| Self::default().0[&service])
    }
}

impl Serialize for Timeouts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // In one unit, so that timeouts can be compared by looking at them.
        let shown = |time: &Duration| match time.subsec_nanos() {
            0 => format!("{}s", time.as_secs()),
            _ => format!("{}ms", time.as_millis()),
        };
        serializer.collect_map(self.0.iter().map(|(service, time)| (service, shown(time))))
    }
}

impl TimeoutsChange {
    /// The timeouts once this is changed about `before`.
    ///
    /// # Errors
    /// Every mistake at once.
    pub fn over(self, before: &Timeouts) -> Result<Timeouts, Problems> {
        let mut mistakes = Mistakes::default();
        let mut times = before.0.clone();
        let Self(ByService(changes)) = self;
        if changes.is_empty() {
            mistakes.add("", "changes nothing: name a service and its timeout");
        }
        times.extend(changes.into_iter().map(|(service, WrittenDuration(time))| (service, time)));
        mistakes.or(Timeouts(times))
    }
}

#[cfg(test)]
mod tests {
    use backstitch_api::validate::read;
    use serde_json::{Value, json};

    use super::*;

    fn everywhere() -> ServicesChange {
        let endpoint = |name: &str| json!({"url": format!("http://localhost/{name}"), "rollback_url": format!("http://localhost/{name}/undo")});
        let all = ["payment", "inventory", "logistics"].map(|name| (name.to_owned(), endpoint(name)));
        let all: serde_json::Map<_, _> = all.into_iter().collect();
        services(&json!({ "endpoints": all })).unwrap()
    }

    fn services(change: &Value) -> Result<ServicesChange, Problems> {
        read(&change.to_string(), "body")
    }

    fn timeouts(change: &Value) -> Result<TimeoutsChange, Problems> {
        read(&change.to_string(), "body")
    }

    fn places(problems: Problems) -> Vec<String> {
        problems.0.into_iter().map(|problem| problem.place).collect()
    }

    #[test]
    fn the_first_services_need_every_endpoint() {
        let services = everywhere().over(None).unwrap();
        assert_eq!(services.order, Service::ALL);
        let missing = ServicesChange::default().over(None).unwrap_err();
        assert_eq!(places(missing).len(), 7, "nothing is said at all, and six addresses are missing");
    }

    #[test]
    fn a_change_of_the_order_keeps_the_endpoints() {
        let before = everywhere().over(None).unwrap();
        let change = services(&json!({ "order": ["logistics", "payment", "inventory"] })).unwrap();
        let after = change.over(Some(&before)).unwrap();
        assert_eq!(after.order, [Service::Logistics, Service::Payment, Service::Inventory]);
        assert_eq!(after.endpoints, before.endpoints);
    }

    #[test]
    fn each_service_is_named_once() {
        let change = services(&json!({ "order": ["payment", "payment", "mail"] }));
        assert_eq!(places(change.unwrap_err()), ["order[1]", "order[2]", "order", "order"]);
    }

    #[test]
    fn an_address_that_cannot_be_called_is_refused() {
        let long = format!("http://{}/", "a".repeat(5000));
        for url in [
            "nowhere",
            "ftp://host/x",
            "http://me:secret@host/",
            "http://host/#part",
            "http://host/a\u{0}b",
            "http://ho\nst/",
            " http://host/",
            &long,
        ] {
            let change = services(&json!({"endpoints": {"payment": {"url": url}}}));
            assert_eq!(places(change.unwrap_err()), ["endpoints.payment.url"], "{url}");
        }
        let unknown = services(&json!({"endpoints": {"mail": {}}}));
        assert_eq!(places(unknown.unwrap_err()), ["endpoints.mail"]);
    }

    #[test]
    fn retries_are_a_number_or_a_policy_and_stay() {
        let written = |retry: Value| services(&json!({"endpoints": {"payment": {"retry": retry}}}));
        let change = |retry: Value| written(retry).unwrap();
        let first = everywhere().over(None).unwrap();
        assert_eq!(first.endpoints[&Service::Payment].retry, Retry::none());
        let shown = serde_json::to_value(&first).unwrap();
        assert_eq!(shown["endpoints"]["payment"].get("retry"), None, "none is the default");
        let three = change(json!(3)).over(Some(&first)).unwrap();
        let kept = change(json!(null)).over(Some(&three)).unwrap();
        assert_eq!(kept.endpoints[&Service::Payment].retry, Retry::exponential(3, Duration::from_secs(1)));
        assert_eq!(kept.endpoints[&Service::Logistics].retry, Retry::none());
        let policy = json!({"count": 2, "backoff": "fixed", "delay": "200ms"});
        let two = change(policy.clone()).over(Some(&three)).unwrap();
        let shown = serde_json::to_value(&two).unwrap();
        assert_eq!(shown["endpoints"]["payment"]["retry"], json!({"count": 2, "delay": "200ms"}));
        for (retry, place) in [
            (json!("often"), "endpoints.payment.retry"),
            (json!({"cuont": 1}), "endpoints.payment.retry.cuont"),
            (json!(1001), "endpoints.payment.retry.count"),
            (json!({"count": 1, "within": "5s"}), "endpoints.payment.retry.within"),
            (json!({"backoff": "fixed", "delay": "1s"}), "endpoints.payment.retry.count"),
            (json!({"delay": "1s"}), "endpoints.payment.retry.count"),
            (json!({"count": null}), "endpoints.payment.retry.count"),
        ] {
            assert_eq!(places(written(retry).unwrap_err()), [place]);
        }
    }

    #[test]
    fn a_timeout_is_text_or_seconds_and_the_others_stay() {
        let change = timeouts(&json!({"payment": "45s", "inventory": 2.5})).unwrap();
        let times = change.over(&Timeouts::default()).unwrap();
        let shown = serde_json::to_value(&times).unwrap();
        assert_eq!(shown, json!({"payment": "45s", "inventory": "2500ms", "logistics": "120s"}));
    }

    #[test]
    fn a_timeout_that_cannot_work_is_refused_with_all_others() {
        let change = timeouts(&json!({"payment": 0, "inventory": "soon", "logistics": -1, "mail": 5}));
        assert_eq!(places(change.unwrap_err()), ["mail", "payment", "inventory", "logistics"]);
    }
}
