//! What is wrong with a request, said in the form of RFC 9457 and without internals.

mod causes;
mod kind;

use std::borrow::Cow;
use std::time::Duration;

use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use kind::Kind;

/// What a problem is sent as.
pub(crate) const CONTENT: HeaderValue = HeaderValue::from_static("application/problem+json");

/// One thing that is wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: Cow<'static, str>,
    more: Option<Box<More>>,
}

#[derive(Debug, Default)]
struct More {
    members: Map<String, Value>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// One of several mistakes, with its place.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct Mistake {
    /// Where in the request it is, as in `attributes.tenant`.
    pub(crate) place: String,
    /// What is wrong there.
    pub(crate) message: String,
}

/// The body of every answer that is not a success (RFC 9457, `application/problem+json`).
#[derive(utoipa::ToSchema)]
#[schema(as = Problem)]
#[expect(dead_code, reason = "describes what is written member by member")]
pub(crate) struct Described {
    /// What kind of problem it is; the page at this address says more.
    #[schema(rename = "type", example = "/docs/errors/saga-not-found")]
    r#type: String,
    /// The kind in words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// What is wrong, and what to do.
    detail: String,
    /// The mistakes one by one, where there can be several.
    problems: Option<Vec<Mistake>>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), more: None }
    }

    /// Several mistakes of one request.
    pub(crate) fn listing(kind: Kind, detail: impl Into<Cow<'static, str>>, mistakes: &[Mistake]) -> Self {
        Self::new(kind, detail).with("problems", mistakes)
    }

    pub(crate) fn method_not_allowed(method: &Method, allowed: &str) -> Self {
        let detail = format!("{method} does nothing here: use {allowed}");
        let mut problem = Self::new(Kind::MethodNotAllowed, detail);
        problem.more().header = HeaderValue::from_str(allowed).ok().map(|allowed| (ALLOW, allowed));
        problem
    }

    /// To be asked again after this wait.
    pub(crate) fn too_many_requests(wait: Duration, detail: &'static str) -> Self {
        // Up, never down: whoever comes at the time that was told is let in.
        let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
        let mut problem = Self::new(Kind::TooManyRequests, detail);
        problem.more().header = Some((RETRY_AFTER, HeaderValue::from(seconds)));
        problem
    }

    /// Adds a member that programs can read.
    pub(crate) fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        // A member that has no JSON form is left out: the detail says it too.
        if let Ok(value) = serde_json::to_value(value) {
            self.more().members.insert(name.to_owned(), value);
        }
        self
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(crate) fn body(&self) -> String {
        let written = Written {
            r#type: self.kind.uri(),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: &self.detail,
            members: self.more.as_ref().map(|more| &more.members),
        };
        // Cannot fail: everything in it is JSON already.
        serde_json::to_string(&written).unwrap_or_default()
    }
}

/// A problem as it is written.
#[derive(Serialize)]
struct Written<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    members: Option<&'a Map<String, Value>>,
}

/// A problem in an answer, for whoever tells it in another form.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    pub(crate) mistakes: Vec<Mistake>,
}

impl Problem {
    fn told(&self) -> Told {
        let members = self.more.as_ref().map(|more| &more.members);
        let mistakes = members.and_then(|members| members.get("problems")).cloned();
        Told {
            kind: self.kind,
            detail: self.detail.clone().into_owned(),
            mistakes: mistakes.and_then(|them| serde_json::from_value(them).ok()).unwrap_or_default(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.kind.status(), self.body()).into_response();
        response.extensions_mut().insert(self.told());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, CONTENT);
        match self.kind {
            Kind::Unauthenticated => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"backstitch\""));
            }
            Kind::Unavailable | Kind::KeyHeld | Kind::ShuttingDown | Kind::TooManyConnections => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if let Some((name, value)) = self.more.and_then(|more| more.header) {
            headers.insert(name, value);
        }
        response
    }
}
