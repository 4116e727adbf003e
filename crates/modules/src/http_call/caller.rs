//! Performs the calls of declared sagas over HTTP.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use backstitch::clock::Clock;
use backstitch::{Attempt, Caller, Limit, LimitPermit, Payload, Phase, StepError};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::answer::judge;
use super::client::{Limits, SetupError, client};
use super::exchange::Wire;
use super::header_values::HeaderStorage;
use super::hosts::Hosts;
use super::identity::{self, Identity};
use super::target::Target;
use crate::outgoing::{self, Client};

/// Calls kept in mind before all of them are forgotten and read anew.
const KEPT: usize = 4096;
/// Headers that a call has besides those that its definition gives it, the host among them.
const HEADERS: usize = 9;
/// What of its time an attempt keeps back, at most, so that it ends by itself and can say how far it got.
const KEPT_BACK: Duration = Duration::from_secs(5);

/// Calls services over connections that are kept open.
///
/// ```
/// use std::sync::Arc;
///
/// use backstitch::clock::SystemClock;
/// use backstitch::{Caller, Engine, Saga};
/// use backstitch_modules::declaration::{Declaration, Format};
/// use backstitch_modules::http_call::{HttpCaller, Limits};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let caller: Arc<dyn Caller> = Arc::new(HttpCaller::new(&Limits::default(), Arc::new(SystemClock))?);
/// let definition = b"{name: order, steps: [{id: pay, action: {http: {url: 'http://payment/charge'}}}]}";
/// let draft = Declaration::read(definition, Format::Yaml)?;
/// let engine = Engine::in_memory().await?;
/// engine.register(Saga::declared(draft, &caller)?)?;
/// # Ok(())
/// # }
/// ```
pub struct HttpCaller {
    client: Client,
    /// Limits of actions.
    hosts: Hosts,
    /// Limits of compensations, of their own: whatever goes forward must not keep them from being made.
    undo_hosts: Hosts,
    clock: Arc<dyn Clock>,
    answer_bytes: usize,
    answer_depth: usize,
    headers: HeaderStorage,
    prepared: RwLock<HashMap<Payload, Arc<Prepared>>>,
}

/// How a call is made.
pub(crate) struct Sent<'a> {
    pub(crate) identity: Identity<'a>,
    pub(crate) timeout: Duration,
    /// Whether it waits for room among the calls of its host; the attempt of a saga has it already.
    pub(crate) waits_for_room: bool,
    /// Whether an earlier attempt may have taken effect.
    pub(crate) is_in_doubt: bool,
}

/// A declared call, read once.
struct Prepared {
    target: Target,
    limit: Limit,
    undo_limit: Limit,
}

impl Prepared {
    /// Room for an action, waited for within its time.
    async fn enter(&self, patience: Instant) -> Result<LimitPermit, StepError> {
        // Mostly there is room, and no timer is needed.
        if let Some(room) = self.limit.try_acquire() {
            return Ok(room);
        }
        timeout_at(patience, self.limit.acquire()).await.map_err(|_| {
            let told = format!("{} has too many calls already: there was no room", self.target.authority);
            StepError::not_done(told).with_code("NO_ROOM")
        })
    }
}

impl HttpCaller {
    /// A caller within these limits; the clock tells how far a date in `Retry-After` is away.
    ///
    /// # Errors
    /// When calls cannot be made on this machine.
    pub fn new(limits: &Limits, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        Ok(Self {
            client: client(limits)?,
            hosts: Hosts::with_room(limits.calls_per_host),
            undo_hosts: Hosts::with_room(limits.calls_per_host),
            clock,
            answer_bytes: limits.answer_bytes,
            answer_depth: limits.answer_depth,
            headers: HeaderStorage::Plain,
            prepared: RwLock::default(),
        })
    }

    /// Stores the values of headers so; as they are declared unless told.
    #[must_use]
    pub fn storing_headers(mut self, headers: HeaderStorage) -> Self {
        self.headers = headers;
        self
    }

    /// How the values of headers are stored.
    #[must_use]
    pub fn headers(&self) -> &HeaderStorage {
        &self.headers
    }

    /// Makes a call and judges its answer.
    pub(crate) async fn send(
        &self,
        call: &Payload,
        sent: Sent<'_>,
        body: impl FnOnce() -> Result<String, serde_json::Error>,
    ) -> Result<Payload, StepError> {
        let patience = patience(sent.timeout);
        let prepared = self.prepare(call)?;
        let request = request(&prepared.target, sent.identity, body)?;
        let _place = if sent.waits_for_room { Some(prepared.enter(patience).await?) } else { None };
        let wire = Wire { client: &self.client, clock: &*self.clock, answer_bytes: self.answer_bytes };
        let answer = wire.exchange(request, patience).await?;
        judge(answer, sent.is_in_doubt, self.answer_depth)
    }

    fn prepare(&self, call: &Payload) -> Result<Arc<Prepared>, StepError> {
        let known = self.prepared.read().unwrap_or_else(PoisonError::into_inner).get(call).cloned();
        if let Some(prepared) = known {
            return Ok(prepared);
        }
        let revealed = self.headers.reveal(call).map_err(|why| {
            // Nothing is sent, and another try succeeds once the server has the right secret.
            StepError::not_done(why.to_string()).with_code("HEADER_UNREADABLE")
        })?;
        let target = Target::parse(&revealed).map_err(|why| {
            StepError::refused(format!("the declared call cannot be read: {why}")).with_code("BAD_CALL")
        })?;
        let limit = self.hosts.limit_of(&target.authority);
        let undo_limit = self.undo_hosts.limit_of(&target.authority);
        let prepared = Arc::new(Prepared { target, limit, undo_limit });
        let mut kept = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(call.clone(), prepared.clone());
        Ok(prepared)
    }
}

#[async_trait]
impl Caller for HttpCaller {
    async fn call(&self, call: &Payload, attempt: &Attempt<'_>) -> Result<Payload, StepError> {
        let sent = Sent {
            identity: identity_of(attempt),
            timeout: attempt.timeout(),
            waits_for_room: false,
            is_in_doubt: attempt.is_in_doubt(),
        };
        self.send(call, sent, || attempt.body()).await
    }

    fn protect(&self, call: &Payload) -> Result<Payload, String> {
        self.headers.protect(call).map_err(|why| why.to_string())
    }

    fn limit(&self, call: &Payload, phase: Phase) -> Option<Limit> {
        // A call that cannot be read is refused when it is made.
        let prepared = self.prepare(call).ok()?;
        Some(match phase {
            Phase::Do => prepared.limit.clone(),
            Phase::Undo => prepared.undo_limit.clone(),
        })
    }
}

/// Until when something is waited for that the attempt can do without. Cut short by its timeout it could not say that
/// nothing was sent, or what the status was, and would be in doubt.
fn patience(timeout: Duration) -> Instant {
    let now = Instant::now();
    let kept_back = (timeout / 10).min(KEPT_BACK);
    now.checked_add(timeout.saturating_sub(kept_back)).unwrap_or(now)
}

fn identity_of<'a>(attempt: &Attempt<'a>) -> Identity<'a> {
    Identity {
        saga: attempt.saga_id(),
        step: attempt.step().as_str(),
        phase: attempt.phase().as_str(),
        attempt: attempt.number(),
        idempotency_key: attempt.idempotency_key(),
    }
}

fn request(
    target: &Target,
    identity: Identity<'_>,
    body: impl FnOnce() -> Result<String, serde_json::Error>,
) -> Result<Request<Full<Bytes>>, StepError> {
    let unsendable = |why: &dyn std::fmt::Display| {
        StepError::refused(format!("the call cannot be put into words: {why}")).with_code("BAD_CALL")
    };
    let mut headers = HeaderMap::with_capacity(target.headers.len() + HEADERS);
    for (name, value) in &target.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    headers.insert(USER_AGENT, outgoing::USER_AGENT);
    identity::insert(&mut headers, identity).map_err(|why| unsendable(&why))?;
    let mut content = Bytes::new();
    if target.method != Method::GET {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        content = body().map_err(|why| unsendable(&why))?.into();
    }
    let mut request = Request::new(Full::new(content));
    *request.method_mut() = target.method.clone();
    *request.uri_mut() = target.uri.clone();
    *request.headers_mut() = headers;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_keeps_back_a_little_of_its_time() {
        for (timeout_ms, patience_ms) in
            [(100, 90), (10_000, 9_000), (60_000, 55_000), (3_600_000, 3_595_000)]
        {
            let until = patience(Duration::from_millis(timeout_ms));
            assert_eq!(until - Instant::now(), Duration::from_millis(patience_ms), "of {timeout_ms} ms");
        }
    }
}
