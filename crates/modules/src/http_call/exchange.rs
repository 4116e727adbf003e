//! One request and its answer.

use backstitch::StepError;
use backstitch::clock::Clock;
use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper_util::client::legacy;
use tokio::time::{Instant, timeout_at};

use super::answer::{Answer, Body};
use crate::outgoing::{Client, reason, retry_after};

/// Memory set aside on a service's word that its answer will be as long, in bytes.
const TRUSTED: usize = 64 * 1024;

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
            self.read(response).await
        } else {
            let late = || Body::CutOff("it did not end in time".to_owned());
            timeout_at(patience, self.read(response)).await.unwrap_or_else(|_| late())
        };
        Ok(Answer { status, retry_after, body })
    }

    async fn read(&self, response: Response<Incoming>) -> Body {
        let encoding = response.headers().get(CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            // Never unpacked: a small answer could turn out to be a giant one.
            return Body::Packed(String::from_utf8_lossy(encoding.as_bytes()).into_owned());
        }
        let mut body = response.into_body();
        let expected = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        if expected.is_some_and(|length| length > self.answer_bytes) {
            return Body::TooLarge { limit: self.answer_bytes };
        }
        let mut whole = Vec::with_capacity(expected.unwrap_or_default().min(TRUSTED));
        loop {
            let chunk = match body.frame().await {
                // What is no data are trailers, which nobody asked for.
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Body::CutOff(format!("{error}: {}", reason(&error))),
                None => return Body::Whole(whole),
            };
            if whole.len() + chunk.len() > self.answer_bytes {
                return Body::TooLarge { limit: self.answer_bytes };
            }
            whole.extend_from_slice(&chunk);
        }
    }
}

/// Without a connection nothing was sent, so nothing can have been done; after that nobody knows.
fn unanswered(error: &legacy::Error) -> StepError {
    let why = reason(error);
    if error.is_connect() {
        StepError::failed(format!("cannot connect: {why}")).with_code("CANNOT_CONNECT")
    } else {
        let told = format!("the connection was lost before the answer came: {why}");
        StepError::in_doubt(told).with_code("CONNECTION_LOST")
    }
}
