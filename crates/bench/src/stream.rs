//! A stream of NATS `JetStream` for one run.

use std::sync::Arc;

use async_nats::jetstream::{self, stream};
use backstitch::clock::{Clock, SystemClock};
use backstitch::outbox::Route;
use backstitch_modules::outbox::{Nats, TopicConfig};

use super::Failure;

/// Created on the given broker, and removed after use.
pub(super) struct Stream {
    broker: jetstream::Context,
    url: String,
    name: String,
}

impl Stream {
    pub(super) async fn make(url: &str) -> Result<Self, Failure> {
        let broker = jetstream::new(async_nats::connect(url).await?);
        let name = format!("backstitch-bench-{}", std::process::id());
        let subjects = vec![name.clone()];
        broker
            .create_stream(stream::Config { name: name.clone(), subjects, ..stream::Config::default() })
            .await?;
        Ok(Self { broker, url: url.to_owned(), name })
    }

    /// The route of a topic: a message is sent when the stream has acknowledged it.
    pub(super) fn route(&self, topic: &str) -> Result<Route, Failure> {
        let nats = Nats {
            url: self.url.clone(),
            subject: Some(self.name.clone()),
            stream: self.name.clone(),
            user: None,
            password: None,
            token: None,
            credentials: None,
            root_certificate: None,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Ok(TopicConfig::by(nats).route(topic, &clock)?)
    }

    /// The number of messages in the stream.
    pub(super) async fn messages(&self) -> Result<u64, Failure> {
        let stream = self.broker.get_stream(&self.name).await?;
        Ok(stream.get_info().await?.state.messages)
    }

    pub(super) async fn remove(self) -> Result<(), Failure> {
        self.broker.delete_stream(&self.name).await?;
        Ok(())
    }
}
