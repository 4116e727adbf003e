//! Lifecycles as the server runs them.

use std::sync::Arc;
use std::time::Duration;

use backstitch::Engine;
use backstitch_modules::lifecycles::nats::{BadConfig, Consumer};
use backstitch_modules::lifecycles::sites::SiteCalls;
use backstitch_modules::lifecycles::{self, Calls, Lifecycles};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

/// Why lifecycles cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tables cannot be used, or the machine of sites cannot be made.
    #[error(transparent)]
    Lifecycles(#[from] lifecycles::Error),
    /// Requests cannot be taken from NATS.
    #[error(transparent)]
    Nats(#[from] BadConfig),
}

/// Lifecycles, what performs their actions, and what takes requests.
pub(crate) struct Courses {
    pub(crate) parts: Lifecycles,
    /// Whether this process performs actions.
    drives: bool,
    /// Where requests come from besides HTTP.
    consumer: Option<Arc<Consumer>>,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    driver: Option<JoinHandle<()>>,
    consumer: Option<JoinHandle<()>>,
}

impl Courses {
    /// Takes up lifecycles, with the machine of sites as it is configured. Nothing is performed yet.
    pub(crate) async fn open(engine: &Engine, calls: Arc<dyn Calls>, config: &Config) -> Result<Self, Error> {
        let (config, ages) = (&config.lifecycle, config.retention.of_lifecycles());
        let endpoints = config.sites.endpoints();
        let calls = Arc::new(SiteCalls::new(endpoints.clone(), calls));
        let parts = Lifecycles::open(engine, calls, &config.settings())?;
        parts.provide_sites(&endpoints).await?;
        engine.prune_with(parts.retention(ages));
        let drives = config.concurrency > 0;
        let consumer =
            config.nats.clone().map(|nats| Consumer::new(&parts, nats).map(Arc::new)).transpose()?;
        Ok(Self { parts, drives, consumer, tasks: Mutex::default() })
    }

    /// Performs actions and takes requests until `closing`.
    pub(crate) async fn drive(&self, closing: CancellationToken) {
        let mut tasks = self.tasks.lock().await;
        if self.drives {
            let (parts, closing) = (self.parts.clone(), closing.clone());
            tasks.driver = Some(tokio::spawn(async move { parts.run(closing.cancelled()).await }));
        }
        if let Some(consumer) = self.consumer.clone() {
            tasks.consumer = Some(tokio::spawn(async move { consumer.run(closing.cancelled()).await }));
        }
    }

    /// Waits for actions under way, up to `grace`. Those that take longer are performed again.
    pub(crate) async fn stop(&self, grace: Duration) {
        let Tasks { driver, consumer } = std::mem::take(&mut *self.tasks.lock().await);
        let driven = async {
            let Some(mut driver) = driver else { return };
            if tokio::time::timeout(grace, &mut driver).await.is_err() {
                tracing::warn!(
                    "actions of lifecycles that were under way are performed again after the restart"
                );
                driver.abort();
                let _ = driver.await;
                self.parts.let_go().await;
            }
        };
        let consumed = async {
            if let Some(consumer) = consumer {
                // It ends by itself within a few seconds of closing.
                let _ = consumer.await;
            }
        };
        tokio::join!(driven, consumed);
    }
}
