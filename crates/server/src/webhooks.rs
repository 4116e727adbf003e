//! Webhooks as the server runs them.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Engine;
use backstitch::clock::Clock;
use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::delivery::membership::MembershipSettings;
use backstitch_modules::http_call::SetupError;
use backstitch_modules::randomness::SystemRandomness;
use backstitch_modules::webhooks::egress::{BadEgress, Egress};
use backstitch_modules::webhooks::sender::{Sender, Settings};
use backstitch_modules::webhooks::vault::{self, Vault};
use backstitch_modules::webhooks::{
    self, Counter, DeliveryWorker, Dispatch, Observer, PauseWriter, Registrar, Webhooks, membership,
};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

/// Why webhooks cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tables cannot be used.
    #[error(transparent)]
    Webhooks(#[from] webhooks::Error),
    /// The settings of egress are wrong.
    #[error(transparent)]
    Egress(#[from] BadEgress),
    /// Endpoints cannot be called.
    #[error(transparent)]
    Sender(#[from] SetupError),
    /// Signing secrets cannot be kept.
    #[error(transparent)]
    Vault(#[from] vault::Error),
}

/// Webhooks, and what makes their attempts.
pub(crate) struct Hooks {
    pub(crate) parts: Webhooks,
    /// Nothing where the server has no secret to keep signing secrets with.
    pub(crate) sending: Option<Sending>,
    tasks: Mutex<Tasks>,
}

/// What knows signing secrets.
pub(crate) struct Sending {
    pub(crate) registrar: Registrar,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) delivery_worker: Arc<DeliveryWorker>,
}

#[derive(Default)]
struct Tasks {
    delivery_worker: Option<JoinHandle<()>>,
    orchestrator: Option<JoinHandle<()>>,
    counter: Option<JoinHandle<()>>,
    pauses: Option<JoinHandle<()>>,
    closer: Option<JoinHandle<()>>,
}

impl Hooks {
    /// Takes up webhooks: decides about deliveries, and makes attempts until `closing`.
    pub(crate) async fn start(
        engine: &Engine,
        config: &Config,
        secret: Option<&[u8]>,
        observer: Arc<dyn Observer>,
        clock: Arc<dyn Clock>,
        closing: CancellationToken,
    ) -> Result<Self, Error> {
        let parts = Webhooks::open_with(engine, config.webhooks.retry_defaults()).await?;
        let mut tasks = Tasks::default();
        let sending =
            secret.map(|secret| Sending::new(&parts, config, secret, observer.clone(), clock)).transpose()?;
        if let Some(sending) = &sending {
            let counter = Arc::new(Counter::of(
                sending.dispatch.clone(),
                parts.subscriptions.clone(),
                observer.clone(),
            ));
            engine.open_desk(counter.clone());
            tasks.counter = Some(tokio::spawn(async move { counter.run().await }));
            tasks.pauses = Some(tokio::spawn(PauseWriter::of(sending.dispatch.clone()).run()));
            if config.webhooks.concurrency > 0 {
                let worker = sending.delivery_worker.clone();
                let closing = async move { closing.cancelled().await };
                tasks.delivery_worker = Some(tokio::spawn(async move { worker.run(closing).await }));
            }
        } else {
            tracing::warn!(
                "webhooks are kept and not sent: set `secret`, which their signing secrets are encrypted with"
            );
        }
        let jobs = parts.jobs.clone();
        tasks.closer = Some(tokio::spawn(async move { jobs.maintain().await }));
        let orchestrator = parts.orchestrator.clone();
        tasks.orchestrator = Some(tokio::spawn(async move { orchestrator.run(&*observer).await }));
        engine.prune_with(parts.retention(&config.retention.of_webhooks()));
        Ok(Self { parts, sending, tasks: Mutex::new(tasks) })
    }

    /// Waits for attempts under way, up to `grace`, and decides about nothing more. Those that take longer are made again.
    pub(crate) async fn stop(&self, grace: Duration) {
        let tasks = std::mem::take(&mut *self.tasks.lock().await);
        if let Some(mut worker) = tasks.delivery_worker
            && tokio::time::timeout(grace, &mut worker).await.is_err()
        {
            tracing::warn!("webhooks that were on their way are sent again after the restart");
            worker.abort();
            let _ = worker.await;
        }
        for task in [tasks.orchestrator, tasks.counter, tasks.pauses, tasks.closer].into_iter().flatten() {
            task.abort();
            let _ = task.await;
        }
        // The delivery worker has done so; outside workers may have asked after that.
        if let Some(sending) = &self.sending {
            sending.dispatch.leave().await;
        }
    }
}

impl Sending {
    fn new(
        parts: &Webhooks,
        config: &Config,
        secret: &[u8],
        observer: Arc<dyn Observer>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let egress = Egress::allowing(&config.egress.allow)?;
        let vault = Vault::new(secret)?;
        let places = config.webhooks.concurrency;
        let limiter = Limiter::new(LimiterSettings {
            // Outside workers need places too where nothing is sent from here.
            places: if places > 0 { places } else { LimiterSettings::default().places },
            ..LimiterSettings::default()
        });
        let settings = Settings { connect_within: config.calls.connect_timeout, ..Settings::default() };
        let sender = Sender::new(egress.clone(), settings, clock.clone())?;
        let subscriptions = parts.subscriptions.clone();
        let membership = Arc::new(membership(&parts.jobs, MembershipSettings::default()));
        let dispatch = Arc::new(Dispatch::new(parts.jobs.clone(), membership, limiter, vault.clone(), clock));
        let delivery_worker =
            Arc::new(DeliveryWorker::new(dispatch.clone(), sender, subscriptions.clone(), observer));
        let registrar = Registrar::new(subscriptions, egress, vault, Arc::new(SystemRandomness))
            .with_usual_terms(config.webhooks.usual_terms());
        Ok(Self { registrar, dispatch, delivery_worker })
    }
}
