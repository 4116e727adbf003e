//! Requests that change the services and timeouts of orders.

use std::collections::BTreeMap;

use backstitch::kernel::mistakes::MAX_RETRIES;
use backstitch::{Problem, Problems, Retry};
use backstitch_api::request;
use backstitch_api::validate::schema::{Components, closed, collect, described, of, whole_number, words};
use backstitch_api::validate::{Input, Node, WaitText, WrittenDuration};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::service::{Endpoint, Service};
use crate::declaration::{MAX_JITTER, read_retry};
use crate::http_url::HttpUrl;

request! {
    /// A change of the services: what is left out stays.
    @derive(Default, PartialEq, Eq, Serialize, Deserialize)
    pub struct ServicesChange as "ServicesChange" example { "endpoints": { "payment": { "url": "http://127.0.0.1:7431/payment/charge" } } } {
        /// Each service once, in the order they are to be called.
        pub order: Option<ServiceOrder>,
        /// Where services are from now on.
        pub endpoints: ByService<EndpointChange>,
    }
}

request! {
    /// A change of where a service is.
    @derive(Default, PartialEq, Eq, Serialize, Deserialize)
    pub struct EndpointChange as "EndpointChange" {
        /// Called to do its part.
        pub url: Option<HttpUrl>,
        /// Called to undo it.
        pub rollback_url: Option<HttpUrl>,
        /// How often it is called again: a number of retries, or a policy. `0` turns retries off.
        pub retry: Option<ServiceRetry>,
    }
}

/// A change of timeouts: what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeoutsChange(pub ByService<WrittenDuration>);

impl Input for TimeoutsChange {
    fn read(node: &Node<'_>) -> Option<Self> {
        ByService::read(node).map(Self)
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }
}

impl PartialSchema for TimeoutsChange {
    fn schema() -> RefOr<Schema> {
        let change = by_service::<WrittenDuration>("A change of timeouts: what is left out stays.");
        change.min_properties(Some(1)).examples([json!({ "payment": "45s" })]).into()
    }
}

impl ToSchema for TimeoutsChange {
    fn schemas(components: &mut Components) {
        WrittenDuration::collect(components);
    }
}

/// Something of each service that is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByService<T>(pub BTreeMap<Service, T>);

impl<T> Default for ByService<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Input> Input for ByService<T> {
    fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.object(&Service::ALL.map(Service::name))?;
        let read = |service: Service| {
            let named = object.get(service.name())?;
            Some(T::read(&named).map(|value| (service, value)))
        };
        let read: Vec<_> = Service::ALL.into_iter().filter_map(read).collect();
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema() -> RefOr<Schema> {
        by_service::<T>("").into()
    }

    fn collect(components: &mut Components) {
        T::collect(components);
    }
}

fn by_service<T: Input>(about: &str) -> ObjectBuilder {
    Service::ALL
        .into_iter()
        .fold(closed(about), |object, service| object.property(service.name(), T::schema()))
}

/// Each service once, in the order they are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceOrder(pub Vec<Service>);

impl Input for ServiceOrder {
    fn read(node: &Node<'_>) -> Option<Self> {
        let mut order = Vec::new();
        let mut all_read = true;
        for item in node.items()? {
            let service = item.one_of(&Service::ALL.map(|service| (service.name(), service)));
            let twice = service.filter(|service| order.contains(service));
            if let Some(twice) = twice {
                item.wrong(format!("`{}` is listed twice", twice.name()));
            }
            all_read &= service.is_some() && twice.is_none();
            order.extend(service.filter(|_| twice.is_none()));
        }
        for service in Service::ALL.into_iter().filter(|service| !order.contains(service)) {
            node.wrong(format!("`{}` is missing: name each service once", service.name()));
            all_read = false;
        }
        all_read.then_some(Self(order))
    }

    fn schema() -> RefOr<Schema> {
        let services = ArrayBuilder::new().items(words(Service::ALL.map(Service::name))).unique_items(true);
        services.min_items(Some(Service::ALL.len())).max_items(Some(Service::ALL.len())).into()
    }
}

/// How often a service is called again: a number, or a policy as in a definition, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceRetry(pub Value);

impl ServiceRetry {
    /// The policy, or its errors. All attempts together take no longer than the service's timeout.
    ///
    /// # Errors
    /// All errors; the policy is the field `retry` of the object with this path.
    pub fn policy(&self, path: &str) -> Result<Retry, Problems> {
        let Self(written) = self;
        let policy = read_retry(path, written, &Endpoint::usual_retry())?;
        let problem = |field: &str, message: &str| Problem {
            place: format!("{path}.retry.{field}"),
            message: message.to_owned(),
        };
        let mut problems = Vec::new();
        if policy.within.is_some() {
            problems.push(problem("within", "is the service's timeout: leave it out"));
        }
        // Services have no usual number of retries. A list has one for each wait.
        let says = |field| written.get(field).is_some_and(|value: &Value| !value.is_null());
        if !(written.is_number() || says("count") || says("delays")) {
            let missing = "is missing: write how often the service is called again; `0` turns retries off";
            problems.push(problem("count", missing));
        }
        if problems.is_empty() { Ok(policy) } else { Err(Problems(problems)) }
    }
}

impl Input for ServiceRetry {
    fn read(node: &Node<'_>) -> Option<Self> {
        let retry = Self(node.value());
        let around = node.path().rsplit_once('.').map_or("", |(around, _)| around);
        retry.policy(around).map_err(|problems| node.report(problems)).ok()?;
        Some(retry)
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }

    fn collect(components: &mut Components) {
        collect::<Self>(components);
        collect::<WaitText>(components);
    }
}

impl PartialSchema for ServiceRetry {
    fn schema() -> RefOr<Schema> {
        let count = || whole_number("Attempts after the first.", 0, MAX_RETRIES);
        let jitter = "Waits are longer by up to this many percent.";
        let shape = |about: &str, backoff| {
            closed(about)
                .property("backoff", words([backoff]))
                .property("count", count())
                .property("jitter", whole_number(jitter, 0, MAX_JITTER.into()))
        };
        let exponential =
            shape("Waits that double. `Retry-After` is honoured if it is longer.", "exponential")
                .property("delay", described::<WaitText>("The first wait; `1s` unless given."))
                .property("max_delay", described::<WaitText>("The longest wait."))
                .required("count");
        let fixed = shape("Waits that are all the same. `Retry-After` is honoured if it is longer.", "fixed")
            .property("delay", described::<WaitText>("The wait; `1s` unless given."))
            .required("backoff")
            .required("count");
        let waits = ArrayBuilder::new().items(of::<WaitText>()).min_items(Some(1));
        let list = shape("Waits one by one. `Retry-After` is honoured if it is longer.", "list")
            .property("delays", waits.max_items(usize::try_from(MAX_RETRIES).ok()))
            .required("delays");
        OneOfBuilder::new()
            .description(Some("Retries of a service, all within its timeout: how many, or a policy."))
            .item(count())
            .item(exponential)
            .item(fixed)
            .item(list)
            .examples([json!({ "count": 3, "delay": "1s" })])
            .into()
    }
}

impl ToSchema for ServiceRetry {}
