//! A POST request to an address that the operator chose.

use std::error::Error as _;

use async_trait::async_trait;
use backstitch::Timestamp;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};

use super::{Alert, Channel, Room, certificates};
use crate::alerts::config::Webhook;
use crate::alerts::text;
use crate::outgoing;

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
        let trusted = certificates::in_file(webhook.root_certificate.as_deref())?;
        let client = outgoing::client(trusted).map_err(|why| format!("root_certificate: {why}"))?;
        let client = client.build().map_err(|why| format!("url: requests cannot be made: {why}"))?;
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
