//! A scripted broker that receives order requests over HTTP.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// What the broker does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Takes it at once.
    Takes,
    /// Takes it after a while.
    TakesSlowly(Duration),
    /// Says that it cannot.
    Refuses,
    /// Says nothing for as long as the mood lasts, and then refuses it in that mood, or takes it.
    Hangs,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) key: String,
    pub(crate) body: Value,
    pub(crate) in_doubt: bool,
    pub(crate) at: Instant,
}

#[derive(Clone)]
pub(crate) struct Broker {
    address: SocketAddr,
    inner: Arc<Inner>,
    _serving: Arc<AbortOnDropHandle<()>>,
}

struct Inner {
    mood: watch::Sender<Mood>,
    heard: watch::Sender<Vec<Heard>>,
    /// Requests at once: now, and at most.
    at_once: Mutex<(usize, usize)>,
}

impl Broker {
    pub(crate) async fn start(mood: Mood) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            mood: watch::Sender::new(mood),
            heard: watch::Sender::new(Vec::new()),
            at_once: Mutex::default(),
        });
        let routes = Router::new().route("/orders", post(take)).with_state(inner.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, inner, _serving: Arc::new(AbortOnDropHandle::new(serving)) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    pub(crate) fn be(&self, mood: Mood) {
        self.inner.mood.send_replace(mood);
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.inner.heard.borrow().clone()
    }

    /// How often each key came.
    pub(crate) fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for heard in self.heard() {
            *counts.entry(heard.key).or_default() += 1;
        }
        counts
    }

    /// The most requests that were there at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.inner.at_once.lock().unwrap().1
    }

    /// Waits until so many requests have come.
    pub(crate) async fn has_heard(&self, requests: usize) -> Vec<Heard> {
        let mut heard = self.inner.heard.subscribe();
        let heard = crate::support::within(heard.wait_for(|heard| heard.len() >= requests)).await.unwrap();
        heard.clone()
    }
}

async fn take(State(broker): State<Arc<Inner>>, headers: HeaderMap, body: String) -> Response {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let heard = Heard {
        key: text("idempotency-key").unwrap_or_default(),
        body: serde_json::from_str(&body).unwrap(),
        in_doubt: text("x-backstitch-in-doubt").is_some(),
        at: Instant::now(),
    };
    let _here = Here::enter(&broker);
    broker.heard.send_modify(|all| all.push(heard.clone()));
    let mood = *broker.mood.borrow();
    match mood {
        Mood::Takes => {}
        Mood::TakesSlowly(time) => tokio::time::sleep(time).await,
        Mood::Refuses => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Mood::Hangs => {
            let mut moods = broker.mood.subscribe();
            let refuses =
                moods.wait_for(|mood| *mood != Mood::Hangs).await.is_ok_and(|mood| *mood == Mood::Refuses);
            if refuses {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
        }
    }
    axum::response::Response::builder()
        .header("content-type", "application/json")
        .body(json!({ "order_no": format!("no-{}", heard.key) }).to_string().into())
        .unwrap()
}

/// A request that is there.
struct Here(Arc<Inner>);

impl Here {
    fn enter(broker: &Arc<Inner>) -> Self {
        let mut at_once = broker.at_once.lock().unwrap();
        at_once.0 += 1;
        at_once.1 = at_once.1.max(at_once.0);
        drop(at_once);
        Self(broker.clone())
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.at_once.lock().unwrap().0 -= 1;
    }
}
