//! A POST request to an address that the operator chose.

use std::error::Error as _;

use async_trait::async_trait;
use backstitch::Timestamp;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use super::{Alert, Channel, Room, tls};
use crate::alerts::config::Webhook;
use crate::alerts::text;

/// What a header cannot hold, and what would make two keys look the same.
const NOT_IN_A_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

pub(super) struct Post {
    client: Client,
    url: Url,
    room: Room,
}

impl Post {
    pub(super) fn to(webhook: &Webhook) -> Result<Self, String> {
        let url = Url::parse(webhook.url.reveal()).map_err(|why| format!("url: {why}"))?;
        // It goes where it is told: no redirect and no proxy of the environment leads it elsewhere.
        let client = Client::builder()
            .tls_backend_preconfigured(tls::config(webhook.root_certificate.as_deref())?)
            .redirect(Policy::none())
            .no_proxy()
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .user_agent(concat!("backstitch/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|why| format!("url: requests cannot be made: {why}"))?;
        Ok(Self { client, url, room: Room::within(webhook.timeout) })
    }
}

#[async_trait]
impl Channel for Post {
    fn name(&self) -> &'static str {
        "webhook"
    }

    async fn deliver(&self, alert: &Alert, _now: Timestamp) -> Result<(), String> {
        let key = utf8_percent_encode(&alert.key, NOT_IN_A_HEADER).to_string();
        let request = self
            .client
            .post(self.url.clone())
            .header("Idempotency-Key", key)
            .header(CONTENT_TYPE, "application/json")
            .body(text::json(alert).to_string());
        let answer = self.room.exchange(async { request.send().await.map_err(|why| reason(&why)) }).await?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}

/// An error's causes, without the address, which may be a secret.
fn reason(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    if told.is_empty() { "the request failed".to_owned() } else { told.join(": ") }
}
