//! How an endpoint is called: read from its lane once, used for every job of it.

use backstitch::Timestamp;
use bytes::Bytes;
use http::header::HeaderMap;

use super::egress::Endpoint;
use super::headers::Headers;
use super::jobs::{Lane, Leased, Sent};
use super::sender::{Request, header_names};
use super::signature::{Secret, WebhookId};
use super::vault::{self, Vault};

/// Why an endpoint cannot be called at all. Nothing is sent to it then, and nothing is lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum Uncallable {
    #[error(transparent)]
    Secret(#[from] vault::Error),
    #[error("its address cannot be read: {0}; change the subscription's url")]
    Address(String),
    #[error("its headers cannot be read: {0}; change the subscription's headers")]
    Headers(String),
}

/// Everything that the requests to one endpoint have in common.
pub(super) struct Call {
    lane: Lane,
    endpoint: Endpoint,
    headers: Headers,
    sent: Sent,
    secret: Secret,
    /// The one before, and until when it is good too.
    previous: Option<(Secret, Timestamp)>,
}

impl Call {
    pub(super) fn of(lane: Lane, vault: &Vault) -> Result<Self, Uncallable> {
        let secret = vault.open(lane.id, &lane.secrets.current)?;
        // One that does not open was kept before the server's own secret was lost: the newest is all there is to sign with.
        let previous = lane.secrets.previous.as_ref();
        let previous = previous.and_then(|(sealed, until)| Some((vault.open(lane.id, sealed).ok()?, *until)));
        let endpoint = Endpoint::read(&lane.url).map_err(|why| Uncallable::Address(why.join("; ")))?;
        let headers = Headers::check(&lane.headers.open(vault, lane.id)?).map_err(|mistakes| {
            let said = mistakes.into_iter().map(|mistake| format!("{}: {}", mistake.name, mistake.message));
            Uncallable::Headers(said.collect::<Vec<_>>().join("; "))
        })?;
        let sent = Sent { url: lane.url.clone(), headers: header_names(&headers) };
        Ok(Self { lane, endpoint, headers, sent, secret, previous })
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// What is kept of every request to it.
    pub(super) fn sent(&self) -> &Sent {
        &self.sent
    }

    /// The request of one attempt, signed with every secret that is good now.
    pub(super) fn request(&self, id: WebhookId, payload: Bytes, attempt: u32, now: Timestamp) -> Request {
        let previous = self.previous.iter().filter(|(_, until)| *until > now).map(|(secret, _)| secret);
        Request {
            endpoint: self.endpoint.clone(),
            id,
            payload,
            headers: self.headers.clone(),
            secrets: std::iter::once(&self.secret).chain(previous).cloned().collect(),
            attempt,
            timeout: self.lane.timeout,
        }
    }

    /// The same, as headers for somebody else to send.
    pub(super) fn signed_headers(&self, leased: &Leased, now: Timestamp) -> Result<HeaderMap, String> {
        let id = WebhookId::new(&leased.webhook_id).map_err(|why| why.to_string())?;
        let request = self.request(id, leased.payload.clone().into(), leased.attempt, now);
        request.signed_headers(now).map_err(|failure| failure.message)
    }
}
