//! JSON requests to this machine.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::Failure;

#[derive(Clone)]
pub(super) struct Http(Client<HttpConnector, Full<Bytes>>);

impl Http {
    pub(super) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    /// Sends a request and returns the response's head.
    pub(super) async fn open(
        &self,
        method: Method,
        url: &str,
        header: Option<(&str, &str)>,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(url);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        Ok(self.0.request(request.body(Full::new(body.into()))?).await?)
    }

    /// Sends a request and returns a successful response.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: &str,
        header: Option<(&str, &str)>,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let (head, answer) = self.open(method.clone(), url, header, body).await?.into_parts();
        let answer = answer.collect().await?.to_bytes();
        if !head.status.is_success() {
            let told = String::from_utf8_lossy(&answer);
            return Err(format!("{method} {url} was answered with {}: {told}", head.status).into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}
