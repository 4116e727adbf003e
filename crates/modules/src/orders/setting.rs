//! The settings of orders: each is a kind of documents that hold changes, and says what a change makes of what is active.

use backstitch::{DocumentKind, Problems};
use serde::Serialize;

use super::change::{ServicesChange, TimeoutsChange};
use super::error::Error;
use super::service::{Services, Timeouts};
use super::settings::Active;

/// A setting of orders. What is staged is a change of it; what is active is read from the active definition of orders.
pub trait Setting: DocumentKind {
    /// What a change changes.
    type Value: Clone + Serialize + Send + Sync;

    /// What people call it.
    const TITLE: &'static str;

    /// The value that new orders take, if there is one. Where nothing was applied the first timeouts are in force.
    fn value(active: Option<&Active>, first_timeouts: &Timeouts) -> Option<Self::Value>;

    /// The value once the change is applied.
    ///
    /// # Errors
    /// Every mistake of the change at once.
    fn changed(change: Self::Body, before: Option<&Self::Value>) -> Result<Self::Value, Problems>;

    /// The value for readers who may not see tokens in URLs.
    #[must_use]
    fn masked(value: &Self::Value) -> Self::Value {
        value.clone()
    }

    /// Both settings with this value in place of the active one.
    ///
    /// # Errors
    /// When the other setting has no value yet.
    fn with_value(
        value: Self::Value,
        active: Option<Active>,
        first_timeouts: &Timeouts,
    ) -> Result<(Services, Timeouts), Error>;
}

/// Which services are called, in which order, and where they are.
pub struct ServiceSetting;

impl DocumentKind for ServiceSetting {
    const NAME: &'static str = "order_services";

    type Body = ServicesChange;
}

impl Setting for ServiceSetting {
    type Value = Services;

    const TITLE: &'static str = "services";

    fn value(active: Option<&Active>, _: &Timeouts) -> Option<Services> {
        active.map(|active| active.services.clone())
    }

    fn changed(change: ServicesChange, before: Option<&Services>) -> Result<Services, Problems> {
        change.over(before)
    }

    fn masked(services: &Services) -> Services {
        services.masked()
    }

    fn with_value(
        services: Services,
        active: Option<Active>,
        first_timeouts: &Timeouts,
    ) -> Result<(Services, Timeouts), Error> {
        let timeouts = active.map_or_else(|| first_timeouts.clone(), |active| active.timeouts);
        Ok((services, timeouts))
    }
}

/// How long each service may take.
pub struct TimeoutSetting;

impl DocumentKind for TimeoutSetting {
    const NAME: &'static str = "order_timeouts";

    type Body = TimeoutsChange;
}

impl Setting for TimeoutSetting {
    type Value = Timeouts;

    const TITLE: &'static str = "timeouts";

    fn value(active: Option<&Active>, first_timeouts: &Timeouts) -> Option<Timeouts> {
        Some(active.map_or(first_timeouts, |active| &active.timeouts).clone())
    }

    fn changed(change: TimeoutsChange, before: Option<&Timeouts>) -> Result<Timeouts, Problems> {
        change.over(before.unwrap_or(&Timeouts::default()))
    }

    fn with_value(
        timeouts: Timeouts,
        active: Option<Active>,
        _: &Timeouts,
    ) -> Result<(Services, Timeouts), Error> {
        Ok((active.ok_or(Error::NotConfigured)?.services, timeouts))
    }
}
