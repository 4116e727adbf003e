//! A sender, and what it sends.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::ManualClock;
use backstitch_modules::webhooks::egress::{Egress, Endpoint, Lookup};
use backstitch_modules::webhooks::headers::Headers;
use backstitch_modules::webhooks::sender::{Exchange, Request, Sender, Settings};
use backstitch_modules::webhooks::signature::{Secret, WebhookId};
use futures::FutureExt;
use futures::future::BoxFuture;

/// 1994-11-06 08:49:30 UTC.
pub(crate) const NOW: Timestamp = Timestamp::from_micros(784_111_770_000_000);
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Where tests listen.
pub(crate) fn loopback() -> Egress {
    Egress::allowing(&["127.0.0.0/8"]).unwrap()
}

pub(crate) fn sender() -> Sender {
    sender_with(loopback(), Settings::default())
}

pub(crate) fn sender_with(egress: Egress, settings: Settings) -> Sender {
    Sender::new(egress, settings, Arc::new(ManualClock::at(NOW))).unwrap()
}

/// A sender for whom every name leads to these addresses, one list after the other; the last one stays.
pub(crate) fn sender_finding(egress: Egress, answers: &[&[&str]]) -> Sender {
    sender_asking(egress, Names::leading_to(answers))
}

pub(crate) fn sender_asking(egress: Egress, names: Arc<Names>) -> Sender {
    let settings = Settings { kept_connections: 0, ..Settings::default() };
    Sender::with_lookup(egress, settings, Arc::new(ManualClock::at(NOW)), names).unwrap()
}

pub(crate) struct Names {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Names {
    pub(crate) fn leading_to(answers: &[&[&str]]) -> Arc<Self> {
        let answers =
            answers.iter().map(|found| found.iter().map(|it| it.parse().unwrap()).collect()).collect();
        Arc::new(Self { answers, asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Names {
    fn addresses(&self, _: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, Arc<io::Error>>> {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        std::future::ready(Ok(self.answers[nth].clone())).boxed()
    }
}

pub(crate) fn request(url: &str) -> Request {
    Request {
        endpoint: Endpoint::read(url).unwrap(),
        id: WebhookId::new("msg_1").unwrap(),
        payload: r#"{"type":"order.paid","data":{"amount":7}}"#.into(),
        headers: Headers::default(),
        secrets: vec![Secret::parse(SECRET).unwrap()],
        attempt: 1,
        timeout: Duration::from_secs(30),
    }
}

/// A request that is given up soon: only where nothing is to be waited for.
pub(crate) fn short(url: &str) -> Request {
    Request { timeout: Duration::from_millis(200), ..request(url) }
}

pub(crate) fn headers(given: &[(&str, &str)]) -> Headers {
    let given: BTreeMap<String, String> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Headers::check(&given).unwrap()
}

pub(crate) async fn send(url: &str) -> Exchange {
    sender().send(request(url)).await
}

/// Why a webhook to this address does not arrive.
pub(crate) async fn code(url: &str) -> String {
    let exchange = send(url).await;
    exchange.error_code().unwrap_or_else(|| panic!("it arrived: {exchange:?}")).to_owned()
}
