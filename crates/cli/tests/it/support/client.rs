//! A plain HTTP client.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::within;

/// How long the server holds a request that waits, in seconds. [`within`] limits how often a helper repeats the request.
const HOLD: u64 = 30;

/// Calls one server, with or without a key.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    key: Option<String>,
    inner: legacy::Client<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// The kind of problem it is: the end of its type.
    #[track_caller]
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.headers[CONTENT_TYPE], "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem["type"].as_str().unwrap().strip_prefix("/docs/errors/").unwrap().to_owned()
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let inner = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { address, key: None, inner }
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// The head of an answer; the body is still to come.
    ///
    /// # Errors
    /// When the server is gone.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        within(self.inner.request(request)).await
    }

    /// The same of a server that must be there.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        self.ask(method, path, headers, body).await.unwrap()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let (head, body) = self.open(method, path, headers, body).await.into_parts();
        let body = within(body.collect()).await.unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Starts a saga and gives its id.
    pub(crate) async fn start(&self, body: &Value) -> String {
        let answer = self.post("/v1/sagas", body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Starts a saga and waits for its end.
    pub(crate) async fn run(&self, body: &Value) -> Value {
        let answer = self.post(&format!("/v1/sagas?wait={HOLD}"), body).await;
        match answer.status {
            200 => answer.json(),
            // The saga takes longer than the server holds the request.
            202 => self.ended(answer.json()["id"].as_str().unwrap()).await,
            _ => panic!("{answer:?}"),
        }
    }

    /// Waits for the end of a saga.
    pub(crate) async fn ended(&self, saga: &str) -> Value {
        let ends = ["succeeded", "compensated", "failed"];
        self.repeat_until(&format!("/v1/sagas/{saga}?wait={HOLD}"), "status", &ends).await
    }

    /// Waits for the end of an order.
    pub(crate) async fn ended_order(&self, tx: &str) -> Value {
        let ends = ["complete", "failed_refunded", "failed_not_refunded", "rollback_failed"];
        self.repeat_until(&format!("/v1/orders/{tx}?wait={HOLD}"), "outcome", &ends).await
    }

    async fn repeat_until(&self, path: &str, field: &str, ends: &[&str]) -> Value {
        within(async {
            loop {
                let answer = self.get(path).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                let found = answer.json();
                if ends.contains(&found[field].as_str().unwrap()) {
                    return found;
                }
            }
        })
        .await
    }

    /// Leases jobs; repeats the request until at least one job arrives.
    pub(crate) async fn lease(&self, request: &Value) -> Vec<Value> {
        let mut request = request.clone();
        request["wait_seconds"] = json!(HOLD);
        within(async {
            loop {
                let answer = self.post("/v1/jobs/lease", &request).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                let jobs = answer.json()["jobs"].as_array().unwrap().clone();
                if !jobs.is_empty() {
                    return jobs;
                }
            }
        })
        .await
    }
}
