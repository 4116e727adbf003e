//! Messages, sinks and streams for tests.

use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::{self, stream};
use backstitch::Payload;
use backstitch::clock::{Clock, SystemClock};
use backstitch::sink::{Message, Receipt, Sink, Undelivered};
use backstitch_modules::outbox::{Adapter, Http, Nats, Pace, TopicConfig};
use backstitch_testkit::nats::NatsServer;
use serde_json::Value;

/// The longest timeout that a topic may have.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);
/// A timeout that expires in the test. The request arrives before, on a busy machine too.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

pub(crate) fn message(key: &str, payload: &str) -> Message {
    Message {
        topic: "orders".to_owned(),
        idempotency_key: key.to_owned(),
        ordering_key: None,
        payload: Payload::parse(payload).unwrap(),
        in_doubt: false,
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// The same of another topic.
pub(crate) fn message_of(topic: &str, key: &str, payload: &str) -> Message {
    Message { topic: topic.to_owned(), ..message(key, payload) }
}

pub(crate) fn sink(adapter: impl Into<Adapter>, timeout: Duration) -> Arc<dyn Sink> {
    sink_of("orders", adapter, timeout)
}

/// For the topic of this name, or the topics of this pattern.
pub(crate) fn sink_of(name: &str, adapter: impl Into<Adapter>, timeout: Duration) -> Arc<dyn Sink> {
    let pace = Pace { timeout, ..Pace::default() };
    TopicConfig { adapter: adapter.into(), pace }.sink(name, &clock()).unwrap()
}

pub(crate) fn http(url: &str) -> Http {
    Http { url: url.to_owned(), headers: [].into(), root_certificate: None }
}

/// To the stream ORDERS.
pub(crate) fn nats(url: &str) -> Nats {
    Nats {
        url: url.to_owned(),
        subject: Some("orders.placed".to_owned()),
        stream: "ORDERS".to_owned(),
        user: None,
        password: None,
        token: None,
        credentials: None,
        root_certificate: None,
    }
}

/// A broker with the stream ORDERS, which keeps `orders.>`.
pub(crate) async fn broker() -> (NatsServer, stream::Stream) {
    let server = NatsServer::start().await;
    let orders = add_stream(&server.url(), orders()).await;
    (server, orders)
}

pub(crate) fn orders() -> stream::Config {
    let subjects = vec!["orders.>".to_owned()];
    stream::Config { name: "ORDERS".to_owned(), subjects, ..stream::Config::default() }
}

pub(crate) async fn add_stream(url: &str, config: stream::Config) -> stream::Stream {
    add_stream_as(ConnectOptions::new(), url, config).await
}

pub(crate) async fn add_stream_as(who: ConnectOptions, url: &str, config: stream::Config) -> stream::Stream {
    let client = who.connect(url).await.unwrap();
    jetstream::new(client).create_stream(config).await.unwrap()
}

pub(crate) async fn kept(stream: &stream::Stream) -> u64 {
    stream.get_info().await.unwrap().state.messages
}

pub(crate) fn answer(receipt: &Receipt) -> Value {
    receipt.answer.as_ref().unwrap().decode().unwrap()
}

/// Sends until it is delivered, as the relay would, only faster.
pub(crate) async fn until_delivered(sink: &dyn Sink, message: &Message) -> Receipt {
    let delivered = async {
        loop {
            match sink.send(message).await {
                Ok(receipt) => return receipt,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENT * 2, delivered).await.unwrap()
}

pub(crate) fn code(sent: Result<Receipt, Undelivered>) -> String {
    sent.unwrap_err().code
}
