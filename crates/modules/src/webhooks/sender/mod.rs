//! Makes one attempt: a signed request, and what was answered to it.

mod body;
mod exchange;
mod failure;
mod request;

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::Clock;
use http::Response;
use http::header::{CONTENT_ENCODING, HeaderMap};
use hyper::body::Incoming;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};

use super::egress::{Egress, Guard, Lookup, SystemLookup};
pub use crate::http_call::SetupError;
use crate::outgoing::{Client, Connections, retry_after};
pub use exchange::Exchange;
pub(super) use exchange::{is_gone, refuses_one_event, wants_quiet};
use failure::Failure;
pub use failure::code;
pub use request::Request;
pub(super) use request::header_names;

/// What a sender holds itself to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a connection may take to be made, TLS included; never longer than the attempt as a whole.
    pub connect_within: Duration,
    /// Connections that nobody uses and that are kept for a moment all the same, for each host.
    pub kept_connections: usize,
    /// Certificates trusted beside those that the machine trusts.
    pub trusted: Vec<CertificateDer<'static>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connect_within: Duration::from_secs(10), kept_connections: 64, trusted: Vec::new() }
    }
}

/// Sends webhooks over connections that are kept open.
///
/// It follows no redirect, uses no proxy of the environment, unpacks nothing, and sends nothing twice by itself.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use backstitch::clock::SystemClock;
/// use backstitch_modules::randomness::SystemRandomness;
/// use backstitch_modules::webhooks::egress::Egress;
/// use backstitch_modules::webhooks::headers::Headers;
/// use backstitch_modules::webhooks::sender::{Request, Sender, Settings};
/// use backstitch_modules::webhooks::signature::{Secret, WebhookId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let egress = Egress::allowing(&["127.0.0.0/8"])?;
/// let endpoint = egress.check("http://127.0.0.1:1/hook").map_err(|mistakes| mistakes.join("; "))?;
/// let sender = Sender::new(egress, Settings::default(), Arc::new(SystemClock))?;
/// let exchange = sender
///     .send(Request {
///         endpoint,
///         id: WebhookId::new("evt_1")?,
///         payload: r#"{"type":"order.paid"}"#.into(),
///         headers: Headers::default(),
///         secrets: vec![Secret::make(&SystemRandomness)?],
///         attempt: 1,
///         timeout: Duration::from_secs(5),
///     })
///     .await;
/// assert_eq!(exchange.error_code(), Some("connect_failed"));
/// # Ok(())
/// # }
/// ```
pub struct Sender {
    client: Client,
    egress: Arc<Egress>,
    clock: Arc<dyn Clock>,
}

/// What came back.
struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    body_start: String,
}

impl Sender {
    /// A sender that goes where this egress lets it. The clock tells the time that is signed, and how far a date in
    /// `Retry-After` is away.
    ///
    /// # Errors
    /// When requests cannot be made on this machine.
    pub fn new(egress: Egress, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        Self::with_lookup(egress, settings, clock, Arc::new(SystemLookup::default()))
    }

    /// The same, with names found in another way than the machine's.
    ///
    /// # Errors
    /// When requests cannot be made on this machine.
    pub fn with_lookup(
        egress: Egress,
        settings: Settings,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, SetupError> {
        let egress = Arc::new(egress);
        let connections = Connections {
            made_within: settings.connect_within,
            kept_per_host: settings.kept_connections,
            trusted: settings.trusted,
            reach: Arc::new(Guard { egress: egress.clone(), lookup }),
        };
        Ok(Self { client: connections.client()?, egress, clock })
    }

    /// Makes the attempt. It ends within the request's timeout, whatever the other side does.
    pub async fn send(&self, request: Request) -> Exchange {
        let began = Instant::now();
        let timeout = request.timeout;
        // A timeout beyond all bounds is none.
        let deadline = began.checked_add(timeout).unwrap_or(began + LONGEST);
        let answered = self.attempt(request, deadline).await;
        let answered = answered.unwrap_or_else(|| Err(Failure::late(timeout)));
        Exchange::of(answered, began.elapsed())
    }

    /// Nothing if there was no answer in time.
    async fn attempt(&self, request: Request, deadline: Instant) -> Option<Result<Answer, Failure>> {
        if let Err(why) = self.egress.admit_written(&request.endpoint) {
            return Some(Err(Failure::forbidden(&why)));
        }
        let request = match request.into_http(self.clock.now()) {
            Ok(request) => request,
            Err(why) => return Some(Err(why)),
        };
        let response = timeout_at(deadline, self.client.request(request)).await.ok()?;
        Some(match response {
            Ok(response) => Ok(self.answer(response, deadline).await),
            Err(why) => Err(Failure::unanswered(&why)),
        })
    }

    /// The status has come and says it all; of the body is told what comes in time.
    async fn answer(&self, response: Response<Incoming>, deadline: Instant) -> Answer {
        let status = response.status().as_u16();
        let retry_after = retry_after::read(response.headers(), || self.clock.now());
        let packed = packing(response.headers());
        let body_start = body::start(response.into_body(), packed, deadline).await;
        Answer { status, retry_after, body_start }
    }
}

/// The longest that an attempt may take.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

fn packing(headers: &HeaderMap) -> Option<String> {
    let encoding = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity")?;
    Some(String::from_utf8_lossy(encoding.as_bytes()).into_owned())
}
