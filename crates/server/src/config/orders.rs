//! The services that orders need, as they are before anybody changes them over HTTP.

use std::time::Duration;

use backstitch_modules::http_url::HttpUrl;
use backstitch_modules::orders::{
    self, ByService, EndpointChange, Rollback, Services, ServicesChange, Timeouts,
};
use serde::{Deserialize, Serialize};

use super::text;

/// The services that orders need. Once orders were configured over HTTP, that holds, and these are not looked at again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Orders {
    /// Charges and refunds.
    pub payment: Service,
    /// Reserves and releases.
    pub inventory: Service,
    /// Schedules and cancels.
    pub logistics: Service,
    /// How often a rollback is tried again.
    pub rollback_retries: u32,
    /// The wait before the first retry of a rollback; it doubles up to half a minute.
    #[serde(with = "text::duration")]
    pub rollback_delay: Duration,
    /// How long one try of a rollback may take.
    #[serde(with = "text::duration")]
    pub rollback_timeout: Duration,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    /// Called to do its part.
    #[serde(with = "text::optional")]
    pub url: Option<String>,
    /// Called to undo it.
    #[serde(with = "text::optional")]
    pub rollback_url: Option<String>,
    /// How long it may take.
    #[serde(with = "text::duration")]
    pub timeout: Duration,
}

impl Default for Orders {
    fn default() -> Self {
        let (rollback, timeouts) = (Rollback::default(), Timeouts::default());
        let service = |service| Service { timeout: timeouts.of(service), ..Service::default() };
        Self {
            payment: service(orders::Service::Payment),
            inventory: service(orders::Service::Inventory),
            logistics: service(orders::Service::Logistics),
            rollback_retries: rollback.retries,
            rollback_delay: rollback.delay,
            rollback_timeout: rollback.timeout,
        }
    }
}

impl Orders {
    fn each(&self) -> [(orders::Service, &Service); 3] {
        [
            (orders::Service::Payment, &self.payment),
            (orders::Service::Inventory, &self.inventory),
            (orders::Service::Logistics, &self.logistics),
        ]
    }

    fn change(&self) -> Option<ServicesChange> {
        let said = |(_, service): &(orders::Service, &Service)| {
            service.url.is_some() || service.rollback_url.is_some()
        };
        if !self.each().iter().any(said) {
            return None;
        }
        let endpoint = |service: &Service| EndpointChange {
            url: service.url.clone().map(HttpUrl),
            rollback_url: service.rollback_url.clone().map(HttpUrl),
            retry: None,
        };
        let endpoints = self.each().into_iter().map(|(name, service)| (name, endpoint(service)));
        Some(ServicesChange { order: None, endpoints: ByService(endpoints.collect()) })
    }

    /// The services as they are before anybody changes them; none where nothing is said about them.
    #[must_use]
    pub fn services(&self) -> Option<Services> {
        self.change().and_then(|change| change.over(None).ok())
    }

    /// The timeouts as they are before anybody changes them.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        Timeouts(self.each().into_iter().map(|(name, service)| (name, service.timeout)).collect())
    }

    /// How rollbacks are tried.
    #[must_use]
    pub fn rollback(&self) -> Rollback {
        Rollback {
            retries: self.rollback_retries,
            delay: self.rollback_delay,
            timeout: self.rollback_timeout,
        }
    }

    pub(super) fn mistakes(&self) -> Vec<String> {
        let told = |problem: backstitch::Problem| {
            format!("orders.{}: {}", problem.place.trim_start_matches("endpoints."), problem.message)
        };
        let services = self.change().and_then(|change| change.over(None).err());
        let mut mistakes: Vec<_> = services.into_iter().flat_map(|problems| problems.0).map(told).collect();
        let times =
            self.each().map(|(name, service)| (format!("orders.{}.timeout", name.name()), service.timeout));
        let rollback = ("orders.rollback_timeout".to_owned(), self.rollback_timeout);
        for (name, time) in times.into_iter().chain([rollback]) {
            if time.is_zero() {
                mistakes.push(format!("{name} must be longer than nothing"));
            }
        }
        mistakes
    }
}
