//! Webhooks: events go to every subscription that names their type, until they have arrived or are given up.
//!
//! Parts, each with its own rights in the database: [`Ingest`] takes events and makes deliveries of them; the
//! [`Orchestrator`] alone decides where a delivery stands; [`Jobs`] are what workers lease, and report on;
//! [`DeadLetters`] keeps what was given up, and sends it after all; [`Subscriptions`] says who wants what. Retention
//! prunes what is over. A [`DeliveryWorker`] makes attempts in this process, outside workers make
//! them over a [`Counter`]; the nodes of a [`Membership`] share the limits of endpoints.
//!
//! ```no_run
//! use backstitch::{Engine, Options, Payload};
//! use backstitch_modules::webhooks::{self, NewEvent, Sealed, Terms, Webhooks};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options { products: vec![&webhooks::SCHEMA], ..Options::default() };
//! let engine = Engine::open_with("sqlite:hooks.db", options).await?;
//! let webhooks = Webhooks::open(&engine).await?;
//! tokio::spawn({
//!     let orchestrator = webhooks.orchestrator.clone();
//!     async move { orchestrator.run(&webhooks::Nobody).await }
//! });
//!
//! let terms = Terms::to("https://example.com/hooks", vec!["order.*".to_owned()]);
//! let sealed = Sealed { secret: b"encrypted".to_vec(), ..Sealed::default() };
//! webhooks.subscriptions.create(&terms, |_| Ok(sealed)).await?;
//! let payload = Payload::parse(r#"{"order":7}"#)?;
//! let event = NewEvent { id: Some("o-7".to_owned()), kind: "order.created".to_owned(), payload };
//! assert_eq!(webhooks.ingest.accept(event).await?.deliveries, 1);
//! # Ok(())
//! # }
//! ```

mod base;
mod call;
mod claims;
mod condition;
mod dead_letters;
mod deliveries;
mod delivery_worker;
mod desk;
mod dispatch;
pub mod egress;
mod error;
mod event_type;
mod export;
mod growth;
pub mod headers;
mod ingest;
mod jobs;
mod membership;
mod observer;
mod orchestrator;
mod page;
pub mod parked;
mod pause_writer;
mod pauses;
mod registrar;
mod rejected_reports;
mod replay;
mod retention;
mod schema;
mod sealed_headers;
pub mod sender;
pub mod signature;
mod statement;
mod status;
mod subscription;
mod subscriptions;
pub mod vault;
mod wish;

use std::sync::Arc;

use backstitch::Engine;

pub use condition::{Condition, DEAD_LETTERS_COUNTED, LATELY};
pub use dead_letters::{DeadLetter, DeadLetters, LetterConflict, Requeueable, Requeued, RequeuedMany, Which};
pub use deliveries::{Attempt, Deliveries, Event, Filter, OldestDue, Saga};
pub use delivery_worker::DeliveryWorker;
pub use desk::{Counter, QUEUE};
pub use dispatch::Dispatch;
pub use error::{BadTerms, Error, Mistake};
pub use event_type::{check_patterns, check_type};
pub use growth::{COUNTED, Growth};
pub use ingest::{Accepted, Ingest, NewEvent};
pub use jobs::{
    Answered, Ask, Expired, Jobs, LEASE_EXPIRED, Lane, Lanes, Leased, Report, SUBSCRIPTION_DELETED, Sent, Won,
};
pub use membership::{Membership, Senders, membership};
pub use observer::{Attempted, Nobody, Observer};
pub use orchestrator::{Orchestrator, Progress};
pub use page::Page;
pub use pause_writer::PauseWriter;
pub use pauses::{Pause, Pauses};
pub use registrar::Registrar;
pub use replay::{Reached, Replay, Replayed};
pub use retention::Ages;
pub use schema::SCHEMA;
pub use sealed_headers::SealedHeaders;
pub use status::{delivery_status, delivery_word};
pub use subscription::{Defaulted, Disabled, RetryDefaults, Sealed, Secrets, Subscription, Terms};
pub use subscriptions::{Backlog, GONE, Subscriptions};
pub use wish::{MASK, NewSubscription, SubscriptionChange};

use base::Base;

/// Webhooks on an engine that was opened with [`SCHEMA`] among its products. Cloning gives another handle to the same
/// parts.
#[derive(Clone)]
pub struct Webhooks {
    /// Takes events.
    pub ingest: Arc<Ingest>,
    /// Decides about deliveries; somebody has to [run](Orchestrator::run) it.
    pub orchestrator: Arc<Orchestrator>,
    /// What workers lease.
    pub jobs: Arc<Jobs>,
    /// Deliveries as they stand.
    pub deliveries: Arc<Deliveries>,
    /// What was given up.
    pub dead_letters: Arc<DeadLetters>,
    /// Who wants what.
    pub subscriptions: Arc<Subscriptions>,
    /// Which subscriptions are paused.
    pub pauses: Arc<Pauses>,
    base: Arc<Base>,
}

impl Webhooks {
    /// Takes up webhooks.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open(engine: &Engine) -> Result<Self, Error> {
        Self::open_with(engine, RetryDefaults::default()).await
    }

    /// The same with these retries for subscriptions that do not say.
    ///
    /// # Errors
    /// See [`Webhooks::open`].
    pub async fn open_with(engine: &Engine, defaults: RetryDefaults) -> Result<Self, Error> {
        let base = Arc::new(Base::of(engine, defaults).await?);
        Ok(Self {
            ingest: Arc::new(Ingest::on(base.clone())?),
            orchestrator: Arc::new(Orchestrator::on(base.clone())),
            jobs: Arc::new(Jobs::on(base.clone())?),
            deliveries: Arc::new(Deliveries::on(base.clone())),
            dead_letters: Arc::new(DeadLetters::on(base.clone())),
            subscriptions: Arc::new(Subscriptions::on(base.clone())),
            pauses: Arc::new(Pauses::on(base.clone())),
            base,
        })
    }

    /// Roles of the parts that `PostgreSQL` lacked for our user when this was opened. Those parts act with all rights of the
    /// user, so the database does not keep them apart.
    #[must_use]
    pub fn missing_roles(&self) -> &[&'static str] {
        self.deliveries.base().missing_roles()
    }
}
