//! The subscriptions there are. Deliveries read them; only this changes them.
//!
//! Of two changes the later one always has the later time, whatever the clocks of their nodes say: by that time everybody
//! sees that there was one.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;

use super::base::{Base, Part};
use super::error::Error;
use super::page::{Page, beyond};
use super::sealed_headers::SealedHeaders;
use super::subscription::{Sealed, Subscription, Terms};
use crate::question::{Record, Statement, Value, statement, tidied};

/// Disabled subscriptions whose jobs are counted together.
const LOOKED_AT_ONCE: usize = 500;
/// Jobs of a disabled subscription that are counted.
const MOST_COUNTED: usize = 1_000;

/// Why a subscription was disabled whose endpoint says that it is gone.
pub const GONE: &str = "the endpoint answered 410 Gone";

/// A subscription that is disabled while deliveries wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The subscription.
    pub subscription_id: i64,
    /// Since when.
    pub disabled_at: Timestamp,
    /// Why.
    pub reason: String,
    /// How many deliveries wait, counted up to 1,000.
    pub waiting: u64,
}

/// Makes, reads and changes subscriptions.
pub struct Subscriptions {
    base: Arc<Base>,
}

impl Subscriptions {
    pub(super) fn on(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Makes one; events that come from now on are routed to it. What is secret of it is encrypted by `seal`, which is told
    /// the id that it is bound to.
    ///
    /// # Errors
    /// When the terms cannot be, the secret cannot be sealed, or the database cannot be written.
    pub async fn create(
        &self,
        terms: &Terms,
        seal: impl FnOnce(i64) -> Result<Sealed, Error>,
    ) -> Result<Subscription, Error> {
        self.insert(terms, None, seal).await
    }

    /// The same for one whose events wait until it is enabled.
    ///
    /// # Errors
    /// See [`Subscriptions::create`].
    pub async fn create_disabled(
        &self,
        terms: &Terms,
        reason: &str,
        seal: impl FnOnce(i64) -> Result<Sealed, Error>,
    ) -> Result<Subscription, Error> {
        self.insert(terms, Some(tidied(reason)), seal).await
    }

    async fn insert(
        &self,
        terms: &Terms,
        disabled: Option<String>,
        seal: impl FnOnce(i64) -> Result<Sealed, Error>,
    ) -> Result<Subscription, Error> {
        terms.check()?;
        let reserved = self
            .base
            .change(Part::Subscriptions, statement!("webhooks/next_subscription"), Vec::new())
            .await?;
        let id = reserved.first().ok_or(Error::UnknownSubscription(0))?.integer(0)?;
        let mut values = vec![id.into()];
        let Sealed { secret, headers } = seal(id)?;
        values.extend(terms.columns(&headers)?);
        let now = self.base.now();
        let disabled_at = Value::Time(disabled.is_some().then_some(now));
        values.extend([secret.into(), now.into(), disabled_at, Value::Text(disabled)]);
        let rows =
            self.base.change(Part::Subscriptions, statement!("webhooks/insert_subscription"), values).await?;
        self.one(id, &rows)
    }

    /// Up to `limit` that are disabled while deliveries wait for them.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn disabled_backlogs(&self, limit: usize) -> Result<Vec<Backlog>, Error> {
        let (mut backlogs, mut after) = (Vec::new(), 0);
        loop {
            let asked = statement!("webhooks/disabled_subscriptions");
            let rows =
                self.base.read(Part::Reading, asked, vec![after.into(), LOOKED_AT_ONCE.into()]).await?;
            let ids = rows.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
            for (row, waiting) in rows.iter().zip(self.base.waiting(&ids, MOST_COUNTED).await?) {
                if waiting.count > 0 && backlogs.len() < limit {
                    backlogs.push(Backlog {
                        subscription_id: waiting.partition,
                        disabled_at: row.time(1)?,
                        reason: row.text(2)?,
                        waiting: waiting.count,
                    });
                }
            }
            match ids.last() {
                Some(last) if ids.len() == LOOKED_AT_ONCE && backlogs.len() < limit => after = *last,
                _ => return Ok(backlogs),
            }
        }
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of this number, or the database cannot be read.
    pub async fn get(&self, id: i64) -> Result<Subscription, Error> {
        self.one(
            id,
            &self
                .base
                .read(Part::Subscriptions, statement!("webhooks/load_subscription"), vec![id.into()])
                .await?,
        )
    }

    /// Newest first, a page at a time.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn list(&self, limit: usize, before: Option<i64>) -> Result<Page<Subscription>, Error> {
        let values = vec![before.unwrap_or(i64::MAX).into(), beyond(limit).into()];
        let rows =
            self.base.read(Part::Subscriptions, statement!("webhooks/list_subscriptions"), values).await?;
        let read = |row| Subscription::read(row, self.base.defaults);
        let items = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::of(items, limit, |subscription| subscription.id))
    }

    /// Gives a subscription other terms and these headers; deliveries under way go by them from their next attempt on.
    ///
    /// # Errors
    /// When the terms cannot be, there is no such subscription, or somebody else has changed it since it was read.
    pub async fn change(
        &self,
        read: &Subscription,
        terms: &Terms,
        headers: &SealedHeaders,
    ) -> Result<Subscription, Error> {
        let mut values = vec![read.id.into(), read.updated_at.into()];
        values.extend(terms.columns(headers)?);
        // Never the time it had, like every other change.
        let now = self.base.now().max(read.updated_at.plus(Duration::from_micros(1)));
        values.push(now.into());
        let rows =
            self.base.change(Part::Subscriptions, statement!("webhooks/change_subscription"), values).await?;
        if rows.is_empty() {
            self.get(read.id).await?;
            return Err(Error::ChangedMeanwhile(read.id));
        }
        self.one(read.id, &rows)
    }

    /// Keeps its jobs from being leased. Events go on being routed to it, and are sent when it is back.
    ///
    /// # Errors
    /// When there is no such subscription, or the database cannot be written.
    pub async fn disable(&self, id: i64, reason: &str) -> Result<Subscription, Error> {
        let values = vec![id.into(), self.base.now().into(), tidied(reason).into()];
        self.changed(id, statement!("webhooks/disable_subscription"), values).await
    }

    /// Disables one whose endpoint at this address answered 410; whether it was. One that leads elsewhere by now is left
    /// as it is. For the delivery that is a failure like any other.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn gone(&self, id: i64, url: &str) -> Result<bool, Error> {
        let values = vec![id.into(), self.base.now().into(), GONE.into(), url.into()];
        let rows =
            self.base.change(Part::Subscriptions, statement!("webhooks/gone_subscription"), values).await?;
        Ok(!rows.is_empty())
    }

    /// Lets its jobs be leased again, those first that have waited longest.
    ///
    /// # Errors
    /// When there is no such subscription, or the database cannot be written.
    pub async fn enable(&self, id: i64) -> Result<Subscription, Error> {
        let values = vec![id.into(), self.base.now().into()];
        let enabled = self.changed(id, statement!("webhooks/enable_subscription"), values).await?;
        self.base.work_soon();
        Ok(enabled)
    }

    /// Makes another secret the one that requests are signed with; the one before stays live for `overlap`. While an
    /// earlier one is live too, that needs `replace`: then it is not any more.
    ///
    /// # Errors
    /// When there is no such subscription, an earlier secret is live, or the database cannot be written.
    pub async fn rotate_secret(
        &self,
        id: i64,
        secret: Vec<u8>,
        overlap: Duration,
        replace: bool,
    ) -> Result<Subscription, Error> {
        let now = self.base.now();
        let values =
            vec![id.into(), secret.into(), now.plus(overlap).into(), now.into(), i64::from(replace).into()];
        let rows =
            self.base.change(Part::Subscriptions, statement!("webhooks/rotate_secret"), values).await?;
        if rows.is_empty()
            && let Some((_, until)) = self.get(id).await?.secrets.previous
        {
            return Err(Error::Rotating { subscription: id, until });
        }
        self.one(id, &rows)
    }

    /// Deletes it: nothing is routed to it any more, and what was on its way is given up as a dead letter that says
    /// [`SUBSCRIPTION_DELETED`](super::SUBSCRIPTION_DELETED), but for what is being sent at this moment and arrives.
    ///
    /// # Errors
    /// When there is no such subscription, or the database cannot be written.
    pub async fn delete(&self, id: i64) -> Result<(), Error> {
        let values = vec![id.into(), self.base.now().into()];
        let rows =
            self.base.change(Part::Subscriptions, statement!("webhooks/delete_subscription"), values).await?;
        if rows.is_empty() {
            return Err(Error::UnknownSubscription(id));
        }
        self.base.work_soon();
        Ok(())
    }

    fn one(&self, id: i64, rows: &[Record]) -> Result<Subscription, Error> {
        let row = rows.first().ok_or(Error::UnknownSubscription(id))?;
        Ok(Subscription::read(row, self.base.defaults)?)
    }

    async fn changed(
        &self,
        id: i64,
        statement: Statement,
        values: Vec<Value>,
    ) -> Result<Subscription, Error> {
        self.one(id, &self.base.change(Part::Subscriptions, statement, values).await?)
    }
}
