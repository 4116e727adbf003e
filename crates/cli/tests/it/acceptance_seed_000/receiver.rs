//! A receiver of webhooks with scripted endpoints.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::support::within;

/// What an endpoint does with a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Takes it.
    #[default]
    Takes,
    /// Takes it after a while.
    TakesSlowly(Duration),
    /// Answers with this status.
    Answers(u16),
    /// Says of every webhook, this often, that it is to come again after so many seconds, and takes it then.
    Busy { times: usize, retry_after: u64 },
    /// Answers 500 to every webhook this often, and takes it then.
    FailsFirst(usize),
    /// Refuses every webhook this often as one that it does not want, and takes it then. For that it is not left alone.
    RefusesFirst(usize),
    /// Leads elsewhere.
    LeadsTo(String),
    /// Says nothing for as long as the mood lasts, and then takes it.
    Hangs,
}

/// A webhook as it came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) endpoint: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    inner: Arc<Inner>,
    _serving: Arc<AbortOnDropHandle<()>>,
}

#[derive(Default)]
struct Inner {
    /// By endpoint.
    moods: watch::Sender<HashMap<String, Mood>>,
    heard: watch::Sender<Vec<Heard>>,
}

impl Inner {
    fn mood(&self, endpoint: &str) -> Mood {
        self.moods.borrow().get(endpoint).cloned().unwrap_or_default()
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner::default());
        let routes = Router::new().route("/{endpoint}", post(take)).with_state(inner.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, inner, _serving: Arc::new(AbortOnDropHandle::new(serving)) }
    }

    pub(crate) fn url(&self, endpoint: &str) -> String {
        format!("http://{}/{endpoint}", self.address)
    }

    /// Tells an endpoint how to behave.
    pub(crate) fn be(&self, endpoint: &str, mood: Mood) {
        self.inner.moods.send_modify(|moods| {
            moods.insert(endpoint.to_owned(), mood);
        });
    }

    /// What came to an endpoint, in its order.
    pub(crate) fn heard(&self, endpoint: &str) -> Vec<Heard> {
        self.inner.heard.borrow().iter().filter(|heard| heard.endpoint == endpoint).cloned().collect()
    }

    /// Waits until so many have come to an endpoint.
    pub(crate) async fn has_heard(&self, endpoint: &str, webhooks: usize) -> Vec<Heard> {
        let enough =
            |heard: &Vec<Heard>| heard.iter().filter(|heard| heard.endpoint == endpoint).count() >= webhooks;
        within(self.inner.heard.subscribe().wait_for(enough)).await.unwrap();
        self.heard(endpoint)
    }

    /// How often each webhook came to an endpoint.
    pub(crate) fn counts(&self, endpoint: &str) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for heard in self.heard(endpoint) {
            *counts.entry(heard.id().to_owned()).or_default() += 1;
        }
        counts
    }
}

async fn take(
    State(receiver): State<Arc<Inner>>,
    Path(endpoint): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let heard = Heard { endpoint: endpoint.clone(), headers, body };
    let is_same = |other: &&Heard| other.endpoint == endpoint && other.id() == heard.id();
    let before = receiver.heard.borrow().iter().filter(is_same).count();
    receiver.heard.send_modify(|all| all.push(heard.clone()));
    let status = match receiver.mood(&endpoint) {
        Mood::TakesSlowly(time) => {
            tokio::time::sleep(time).await;
            StatusCode::NO_CONTENT
        }
        Mood::Answers(status) => StatusCode::from_u16(status).unwrap(),
        Mood::Busy { times, retry_after } if before < times => {
            let headers = [("retry-after", retry_after.to_string())];
            return (StatusCode::SERVICE_UNAVAILABLE, headers).into_response();
        }
        Mood::FailsFirst(times) if before < times => StatusCode::INTERNAL_SERVER_ERROR,
        Mood::RefusesFirst(times) if before < times => StatusCode::UNPROCESSABLE_ENTITY,
        Mood::Takes | Mood::Busy { .. } | Mood::FailsFirst(_) | Mood::RefusesFirst(_) => {
            StatusCode::NO_CONTENT
        }
        Mood::LeadsTo(place) => {
            return (StatusCode::TEMPORARY_REDIRECT, [("location", place)]).into_response();
        }
        Mood::Hangs => {
            let moves_on = |moods: &HashMap<String, Mood>| moods.get(&endpoint) != Some(&Mood::Hangs);
            let _ = receiver.moods.subscribe().wait_for(moves_on).await;
            StatusCode::NO_CONTENT
        }
    };
    let said = if status.is_success() { String::new() } else { format!("{endpoint} says no") };
    (status, said).into_response()
}
