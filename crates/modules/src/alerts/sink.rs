//! The sink that takes alerts to their channels, and everything else elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use backstitch::Engine;
use backstitch::sink::{LogSink, Message, Receipt, Sink, Undelivered};
use backstitch::store;
use backstitch::store::outbox::ALERTS;
use futures::future::join_all;

use super::alert::Alert;
use super::channel::{self, Channel};
use super::config::{BadConfig, Config};
use super::notices::{Notices, Try};
use super::text;

/// Takes alerts to every channel that is set; other messages go to another sink.
pub struct AlertSink {
    channels: Vec<Box<dyn Channel>>,
    others: Arc<dyn Sink>,
    notices: Mutex<Option<Notices>>,
}

/// An engine whose alerts cannot be kept account of.
#[derive(Debug, thiserror::Error)]
#[error(
    "alerts cannot be kept account of: {0}; open the engine on a database, with alerts::SCHEMA among its products"
)]
pub struct CannotAttach(#[from] store::Error);

impl AlertSink {
    /// A sink for the alerts of one engine, which is opened with it and then handed to [`AlertSink::attach`]. Messages
    /// that are no alerts go to the log, unless [`AlertSink::others_to`] says where.
    ///
    /// # Errors
    /// When the settings cannot work.
    pub fn new(config: &Config) -> Result<Self, BadConfig> {
        Ok(Self { channels: channel::all(config)?, others: Arc::new(LogSink), notices: Mutex::default() })
    }

    /// The same, with messages that are no alerts going there.
    #[must_use]
    pub fn others_to(mut self, sink: Arc<dyn Sink>) -> Self {
        self.others = sink;
        self
    }

    /// Keeps account in this engine's database. From now on an alert is written together with its recipients. Alerts that
    /// come before are refused, and come again a little later.
    ///
    /// # Errors
    /// When the engine has no database, or one without the tables of alerts.
    pub async fn attach(&self, engine: &Engine) -> Result<(), CannotAttach> {
        let notices = Notices::of(engine);
        notices.set_channels(&self.recipients()).await?;
        *self.notices.lock().unwrap_or_else(PoisonError::into_inner) = Some(notices);
        Ok(())
    }

    fn recipients(&self) -> Vec<(&'static str, String)> {
        self.channels.iter().map(|channel| recipient_of(&**channel)).collect()
    }

    fn notices(&self) -> Option<Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn tell_everybody(&self, message: &Message) -> Result<(), String> {
        let notices = self
            .notices()
            .ok_or("the alert waits until AlertSink::attach has been called with the engine")?;
        let key = &message.idempotency_key;
        let so_far = notices.so_far(key).await.map_err(|why| why.to_string())?;
        let raised_at = so_far.raised_at.unwrap_or_else(|| notices.clock.now());
        let alert = Alert::read(key, &message.payload, raised_at);
        notices.plan(key, &self.recipients()).await.map_err(|why| why.to_string())?;
        let told = |channel: &dyn Channel| {
            let (channel, recipient) = recipient_of(channel);
            so_far.told.iter().any(|told| (told.0.as_str(), &told.1) == (channel, &recipient))
        };
        let untold = self.channels.iter().map(|channel| &**channel).filter(|channel| !told(*channel));
        let failures = join_all(untold.map(|channel| tell(channel, &alert, &notices))).await;
        let failures: Vec<String> = failures.into_iter().filter_map(Result::err).collect();
        if failures.is_empty() {
            Ok(())
        } else {
            Err(format!("the alert is not out over {}", failures.join("; ")))
        }
    }
}

#[async_trait]
impl Sink for AlertSink {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        if message.topic == ALERTS {
            self.tell_everybody(message).await?;
            Ok(Receipt::default())
        } else {
            self.others.send(message).await
        }
    }
}

fn recipient_of(channel: &dyn Channel) -> (&'static str, String) {
    (channel.name(), channel.recipient().unwrap_or_default().to_owned())
}

/// The notice is written right after the channel took the alert, whatever the other channels are still at.
async fn tell(channel: &dyn Channel, alert: &Alert, notices: &Notices) -> Result<(), String> {
    let delivered = channel.deliver(alert, notices.clock.now()).await.map_err(|why| text::reason(&why));
    let (name, recipient) = (channel.name(), channel.recipient());
    let error = delivered.as_ref().err().cloned();
    let tried = Try { channel: name, recipient: recipient.unwrap_or_default().to_owned(), error };
    let recorded = notices.record(&alert.key, tried).await;
    let whom = recipient.map_or_else(|| name.to_owned(), |recipient| format!("{name} to {recipient}"));
    delivered.map_err(|why| format!("{whom}: {why}"))?;
    recorded.map_err(|why| format!("{whom}: it has it, but that could not be written down: {why}"))
}
