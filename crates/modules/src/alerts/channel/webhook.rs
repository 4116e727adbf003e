//! A POST request to an address that the operator chose.

use std::sync::Arc;

use async_trait::async_trait;
use backstitch::Timestamp;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Full;
use url::Url;

use super::{Alert, CONNECTIONS, Channel, Room};
use crate::alerts::config::Webhook;
use crate::alerts::text;
use crate::outgoing::reach::Anywhere;
use crate::outgoing::{self, Client, Connections, certificates, header, reason};

pub(super) struct Post {
    client: Client,
    uri: Uri,
    room: Room,
}

impl Post {
    pub(super) fn to(webhook: &Webhook) -> Result<Self, String> {
        let url = Url::parse(webhook.url.reveal()).map_err(|why| format!("url: {why}"))?;
        let trusted = certificates::in_file(webhook.root_certificate.as_deref())?;
        let uri = Uri::try_from(url.as_str()).map_err(|why| format!("url: {why}"))?;
        let connections = Connections {
            made_within: webhook.timeout,
            kept_per_host: CONNECTIONS,
            trusted,
            reach: Arc::new(Anywhere),
        };
        let client = connections.client().map_err(|why| format!("root_certificate: {why}"))?;
        Ok(Self { client, uri, room: Room::within(webhook.timeout) })
    }
}

#[async_trait]
impl Channel for Post {
    fn name(&self) -> &'static str {
        "webhook"
    }

    async fn deliver(&self, alert: &Alert, _now: Timestamp) -> Result<(), String> {
        let request = Request::post(self.uri.clone())
            .header("Idempotency-Key", header::escaped(&alert.key))
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, outgoing::USER_AGENT)
            .body(Full::from(text::json(alert).to_string()))
            .map_err(|why| why.to_string())?;
        let sent = async { self.client.request(request).await.map_err(|why| reason(&why)) };
        let answer = self.room.exchange(sent).await?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}
