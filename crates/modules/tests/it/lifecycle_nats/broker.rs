//! A broker with a stream of requests.

use std::sync::Once;
use std::time::Duration;

use async_nats::jetstream::{self, consumer, stream};
use backstitch_modules::lifecycles::nats::Config;
use backstitch_testkit::nats::NatsServer;
use serde_json::Value;

use crate::lifecycle_nats::stage::eventually;

pub(crate) const STREAM: &str = "SITES";
pub(crate) const SUBJECT: &str = "sites.requested";
/// Soon enough for a test, and not so soon that a busy machine is taken for a dead one.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(4);

pub(crate) struct Broker {
    pub(crate) server: NatsServer,
    /// Finds the server again by itself.
    context: jetstream::Context,
}

impl Broker {
    pub(crate) async fn with_stream() -> Self {
        let broker = Self::without_stream().await;
        broker.add_stream().await;
        broker
    }

    pub(crate) async fn without_stream() -> Self {
        let server = NatsServer::start().await;
        let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
        Self { server, context }
    }

    pub(crate) async fn add_stream(&self) -> stream::Stream {
        let subjects = vec!["sites.>".to_owned()];
        let config = stream::Config { name: STREAM.to_owned(), subjects, ..stream::Config::default() };
        self.context.create_stream(config).await.unwrap()
    }

    pub(crate) fn config(&self) -> Config {
        Config { ack_wait: ACK_WAIT, ..Config::new(&self.server.url(), STREAM, SUBJECT) }
    }

    pub(crate) fn context(&self) -> &jetstream::Context {
        &self.context
    }

    /// Publishes a request; its number in the stream.
    pub(crate) async fn request(&self, request: &Value) -> u64 {
        self.publish(request.to_string().into_bytes()).await
    }

    pub(crate) async fn publish(&self, body: Vec<u8>) -> u64 {
        let published = self.context.publish(SUBJECT, body.into()).await.unwrap();
        published.await.unwrap().sequence
    }

    /// What the broker knows of the consumer; none where there is none yet.
    pub(crate) async fn info(&self) -> Option<consumer::Info> {
        let stream = self.context.get_stream(STREAM).await.ok()?;
        stream.consumer_info("backstitch").await.ok()
    }

    /// Waits until everything up to this message is acknowledged, and nothing else is under way.
    pub(crate) async fn until_acknowledged(&self, sequence: u64) {
        eventually(&format!("message {sequence} is acknowledged"), async || {
            self.info().await.is_some_and(|info| {
                info.ack_floor.stream_sequence == sequence
                    && info.num_ack_pending == 0
                    && info.num_pending == 0
            })
        })
        .await;
    }

    /// How often messages were delivered, in all.
    pub(crate) async fn deliveries(&self) -> u64 {
        self.info().await.map_or(0, |info| info.delivered.consumer_sequence)
    }
}

/// Where everything that is logged goes: for all tests of this process, since what one thread listens to can be missed
/// while another one listens to nothing.
pub(crate) fn listen_to_the_log() -> &'static std::path::Path {
    static ONCE: Once = Once::new();
    static PATH: std::sync::OnceLock<tempfile::NamedTempFile> = std::sync::OnceLock::new();
    let file = PATH.get_or_init(|| tempfile::NamedTempFile::new().unwrap());
    ONCE.call_once(|| {
        let writer = std::sync::Arc::new(file.reopen().unwrap());
        tracing_subscriber::fmt().with_ansi(false).with_writer(writer).init();
    });
    file.path()
}

pub(crate) async fn logged(text: &str) {
    let path = listen_to_the_log();
    eventually(&format!("somebody says: {text}"), async || {
        std::fs::read_to_string(path).unwrap().contains(text)
    })
    .await;
}
