//! The ways an alert reaches a person.

mod email;
mod file;
mod log;
mod webhook;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::alert::Alert;
use super::config::{BadConfig, Config};

/// Connections to one server at once. When many sagas fail together, their alerts wait for each other instead of being
/// turned away.
const CONNECTIONS: usize = 8;

/// One way to one recipient.
#[async_trait]
pub(super) trait Channel: Send + Sync {
    /// What it is called among the notices.
    fn name(&self) -> &'static str;

    /// Whom it reaches, if the channel has several.
    fn recipient(&self) -> Option<&str> {
        None
    }

    /// Hands an alert over; `Ok` only once the other side has it.
    async fn deliver(&self, alert: &Alert, now: Timestamp) -> Result<(), String>;
}

/// Every channel that is set, and the log.
pub(super) fn all(config: &Config) -> Result<Vec<Box<dyn Channel>>, BadConfig> {
    config.check()?;
    let mut channels: Vec<Box<dyn Channel>> = vec![Box::new(log::Log)];
    let mut mistakes = Vec::new();
    if let Some(email) = &config.email {
        match email::mailings(email) {
            Ok(mailings) => channels.extend(mailings.into_iter().map(|it| Box::new(it) as Box<dyn Channel>)),
            Err(mistake) => mistakes.push(format!("alerts.email.{mistake}")),
        }
    }
    if let Some(webhook) = &config.webhook {
        match webhook::Post::to(webhook) {
            Ok(post) => channels.push(Box::new(post)),
            Err(mistake) => mistakes.push(format!("alerts.webhook.{mistake}")),
        }
    }
    if let Some(path) = &config.file {
        match file::Lines::in_file(path) {
            Ok(lines) => channels.push(Box::new(lines)),
            Err(mistake) => mistakes.push(format!("alerts.file: {mistake}")),
        }
    }
    if mistakes.is_empty() { Ok(channels) } else { Err(BadConfig { mistakes }) }
}

/// Room for connections to a server, and how long one exchange may take, the wait for room included.
#[derive(Clone)]
struct Room {
    connections: Arc<Semaphore>,
    within: Duration,
}

impl Room {
    fn within(within: Duration) -> Self {
        Self { connections: Arc::new(Semaphore::new(CONNECTIONS)), within }
    }

    async fn exchange<T>(&self, exchange: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let admitted = async {
            let _room = self.connections.acquire().await;
            exchange.await
        };
        timeout(self.within, admitted)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {:?}", self.within)))
    }
}
