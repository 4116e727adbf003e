//! What an attempt sends.

use std::time::Duration;

use backstitch::Timestamp;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request as HttpRequest};
use http_body_util::Full;

use super::failure::Failure;
use crate::outgoing;
use crate::webhooks::egress::Endpoint;
use crate::webhooks::headers::Headers;
use crate::webhooks::signature::{self, Secret, WebhookId};

const ATTEMPT: HeaderName = HeaderName::from_static("x-backstitch-attempt");
/// Headers that a request has besides those of its subscription, the host among them.
const HEADERS: usize = 8;

/// The names of all headers that a request with these of its subscription has, in order.
pub(in crate::webhooks) fn header_names(own: &Headers) -> Vec<String> {
    let (ours, signed) = ([ACCEPT, CONTENT_TYPE, USER_AGENT, ATTEMPT], signature::HEADERS);
    let names = own.as_map().keys().chain(&ours).chain(&signed);
    let mut names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// One attempt to deliver an event.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where it goes.
    pub endpoint: Endpoint,
    /// What a receiver tells repeats by: the same on every attempt.
    pub id: WebhookId,
    /// The event, byte by byte the same on every attempt.
    pub payload: Bytes,
    /// The subscription's own headers.
    pub headers: Headers,
    /// The secrets that are good now, the newest first: two while they are rotated.
    pub secrets: Vec<Secret>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How long it may take as a whole: to find the host, to connect, to send and to be answered.
    pub timeout: Duration,
}

impl Request {
    /// Every header of this request, the signatures among them.
    pub(in crate::webhooks) fn signed_headers(&self, now: Timestamp) -> Result<HeaderMap, Failure> {
        // Nobody could tell it from a forgery.
        if self.secrets.is_empty() {
            return Err(Failure::unsigned());
        }
        let own = self.headers.as_map();
        let mut headers = HeaderMap::with_capacity(own.len() + HEADERS);
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, outgoing::USER_AGENT);
        headers.insert(ATTEMPT, HeaderValue::from(self.attempt));
        signature::insert(&mut headers, &self.secrets, &self.id, now, &self.payload)
            .map_err(|why| Failure::unsendable(&why))?;
        Ok(headers)
    }

    pub(super) fn into_http(self, now: Timestamp) -> Result<HttpRequest<Full<Bytes>>, Failure> {
        let headers = self.signed_headers(now)?;
        let mut request = HttpRequest::new(Full::new(self.payload));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.uri().clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomness::SystemRandomness;
    use crate::webhooks::egress::Egress;

    #[test]
    fn the_names_that_are_kept_are_those_of_what_is_sent() {
        let own = [("X-Tenant", "t-1"), ("Authorization", "Bearer x")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = Request {
            endpoint: Egress::default().check("https://example.com/hooks").unwrap(),
            id: WebhookId::new("evt_1").unwrap(),
            payload: "{}".into(),
            headers: Headers::check(&own.into()).unwrap(),
            secrets: vec![Secret::make(&SystemRandomness).unwrap()],
            attempt: 1,
            timeout: Duration::from_secs(5),
        };
        let signed = request.signed_headers(Timestamp::from_micros(0)).unwrap();
        let mut sent: Vec<_> = signed.keys().map(|name| name.as_str().to_owned()).collect();
        sent.sort_unstable();
        assert_eq!(header_names(&request.headers), sent);
    }
}
