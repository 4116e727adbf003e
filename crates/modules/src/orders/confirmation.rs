//! Confirming orders.

use std::sync::Arc;

use backstitch::{Engine, Payload, Run, Starting};
use tokio::sync::{Mutex, MutexGuard};

use super::definition::{DEFINITION, Rollback};
use super::error::Error;
use super::order::Order;
use super::schema::ORDER;
use super::service::{Services, Timeouts};

/// Orders on an engine that was opened with [`SCHEMA`](super::SCHEMA) among its products.
#[derive(Clone)]
pub struct Orders {
    engine: Engine,
    rollback: Rollback,
    first_timeouts: Arc<Timeouts>,
    changing: Arc<Mutex<()>>,
}

impl Orders {
    /// Takes up orders. Where nobody has applied any services yet, these first ones are.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    pub async fn open(
        engine: Engine,
        first_services: Option<Services>,
        first_timeouts: Timeouts,
        rollback: Rollback,
    ) -> Result<Self, Error> {
        let orders =
            Self { engine, rollback, first_timeouts: first_timeouts.into(), changing: Arc::default() };
        if let Some(services) = first_services {
            orders.apply_first(&services).await?;
        }
        Ok(orders)
    }

    /// Accepts an order: it and its saga are on disk, together, once this returns. With a key, a repeated confirmation is
    /// the same one; without, each is a transaction of its own.
    ///
    /// # Errors
    /// When the order has mistakes, nobody has said where the services are, or the key was used for another order.
    pub async fn confirm(&self, order: &Order, key: Option<&str>) -> Result<Run, Error> {
        order.check()?;
        let input = Payload::encode(order).map_err(|why| Error::Unreadable(why.to_string()))?;
        let mut starting: Starting = self
            .engine
            .start(DEFINITION, &input)
            .attribute("order_id", &order.order_id)
            .attribute("customer_id", &order.customer_id)
            .row(&ORDER, input);
        if let Some(key) = key {
            starting = starting.key(key);
        }
        match starting.await {
            Err(backstitch::Error::UnknownDefinition(_) | backstitch::Error::NothingActive(_)) => {
                Err(Error::NotConfigured)
            }
            started => Ok(started?),
        }
    }

    /// The engine that runs them.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn rollback(&self) -> Rollback {
        self.rollback
    }

    pub(super) fn first_timeouts(&self) -> &Timeouts {
        &self.first_timeouts
    }

    /// One change at a time in this process. Of changes on two nodes at once, the later one is made to what the earlier
    /// one left.
    pub(super) async fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }
}
