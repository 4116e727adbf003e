//! GitHub and Vercel, simulated on one loopback port: a site's source, project and hook.
//!
//! A call repeated under its `Idempotency-Key` is carried out once and gets the same response.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Router, body::Bytes};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// The simulated services of sites; they end when this is dropped.
pub(super) struct Hosting {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    _serving: AbortOnDropHandle<()>,
}

/// The calls in order.
pub(super) const ERRANDS: [&str; 3] = ["source", "project", "hook"];

#[derive(Default)]
struct Books {
    /// Owners with a GitHub account.
    linked: BTreeSet<String>,
    /// Owners without quota.
    full: BTreeSet<String>,
    /// Results by idempotency key.
    done: BTreeMap<String, Done>,
}

struct Done {
    site: String,
    errand: String,
}

/// The used parts of a call's body.
#[derive(Deserialize)]
struct Call {
    key: String,
    #[serde(default)]
    input: Value,
}

impl Hosting {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let books = Arc::<Mutex<Books>>::default();
        let router = Router::new().route("/{errand}", post(answer)).with_state(books.clone());
        let serving = tokio::spawn(async move {
            // It ends with the demo.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, books, _serving: AbortOnDropHandle::new(serving) })
    }

    /// The address of a call.
    pub(super) fn url(&self, errand: &str) -> String {
        format!("http://{}/{errand}", self.address)
    }

    /// Links an owner's GitHub account.
    pub(super) fn link(&self, owner: &str) {
        lock(&self.books).linked.insert(owner.to_owned());
    }

    /// Exhausts an owner's quota.
    pub(super) fn fill_quota(&self, owner: &str) {
        lock(&self.books).full.insert(owner.to_owned());
    }

    /// The effects for a site, in the order of the calls.
    pub(super) fn in_effect(&self, site: &str) -> String {
        let books = lock(&self.books);
        let done: Vec<&str> =
            books.done.values().filter(|done| done.site == site).map(|done| done.errand.as_str()).collect();
        let in_order: Vec<String> = ERRANDS
            .iter()
            .filter_map(|errand| match done.iter().filter(|done| *done == errand).count() {
                0 => None,
                1 => Some((*errand).to_owned()),
                times => Some(format!("{errand} {times} times")),
            })
            .collect();
        in_order.join(", ")
    }
}

async fn answer(
    State(books): State<Arc<Mutex<Books>>>,
    Path(errand): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let refused = |code: &str, why: &str| {
        (StatusCode::UNPROCESSABLE_ENTITY, json!({ "code": code, "message": why }).to_string())
            .into_response()
    };
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let Ok(call) = serde_json::from_slice::<Call>(&body) else {
        return refused("BAD_CALL", "this is no call of a state");
    };
    let owner = call.input.get("owner").and_then(Value::as_str).unwrap_or_default();
    let mut books = lock(&books);
    match errand.as_str() {
        "source" if !books.linked.contains(owner) => {
            return refused("no_github_token", "the owner has linked no GitHub account");
        }
        "project" if books.full.contains(owner) => {
            return refused("quota_exceeded", "the owner may have no more projects");
        }
        _ => {}
    }
    let done = Done { site: call.key.clone(), errand: errand.clone() };
    books.done.entry(key.to_owned()).or_insert(done);
    json!({ "receipt": format!("{errand} of {}", call.key) }).to_string().into_response()
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
