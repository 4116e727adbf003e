//! One request and its answer.

use backstitch::StepError;
use backstitch::clock::Clock;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy;
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use crate::outgoing::{Body, Client, reason, retry_after};

/// What an exchange is made with.
pub(super) struct Wire<'a> {
    pub(super) client: &'a Client,
    pub(super) clock: &'a dyn Clock,
    pub(super) answer_bytes: usize,
}

impl Wire<'_> {
    /// Sends the request and reads the answer. Once a status other than a success has come it says it all, and its body
    /// is waited for no longer than until `patience` ends.
    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        patience: Instant,
    ) -> Result<Answer, StepError> {
        let response = self.client.request(request).await.map_err(|error| unanswered(&error))?;
        let status = response.status().as_u16();
        let retry_after = retry_after::read(response.headers(), || self.clock.now());
        let body = if response.status().is_success() {
            Body::read(response, self.answer_bytes).await
        } else {
            let reading = Body::read(response, self.answer_bytes);
            timeout_at(patience, reading).await.unwrap_or_else(|_| Body::late())
        };
        Ok(Answer { status, retry_after, body })
    }
}

/// Without a connection nothing was sent, so nothing can have been done; after that nobody knows.
fn unanswered(error: &legacy::Error) -> StepError {
    let why = reason(error);
    if error.is_connect() {
        StepError::not_done(format!("cannot connect: {why}")).with_code("CANNOT_CONNECT")
    } else {
        let told = format!("the connection was lost before the answer came: {why}");
        StepError::in_doubt(told).with_code("CONNECTION_LOST")
    }
}
