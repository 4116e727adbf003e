//! Loopback endpoints that record the arrival of each event.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::Failure;

/// The behaviour of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Takes,
    Refuses,
    NeverAnswers,
}

impl Manner {
    fn path(self) -> &'static str {
        match self {
            Self::Takes => "/takes",
            Self::Refuses => "/refuses",
            Self::NeverAnswers => "/never-answers",
        }
    }
}

/// The used parts of a webhook.
#[derive(Deserialize)]
struct Numbered {
    number: usize,
}

/// The first arrival of each event.
pub(super) struct Arrivals {
    began: Instant,
    /// Nanoseconds since the start; 0 before the arrival.
    at: Vec<AtomicU64>,
    count: AtomicUsize,
}

impl Arrivals {
    pub(super) fn of(events: usize) -> Arc<Self> {
        let at = std::iter::repeat_with(AtomicU64::default).take(events).collect();
        Arc::new(Self { began: Instant::now(), at, count: AtomicUsize::new(0) })
    }

    fn note(&self, number: usize) {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        if let Some(at) = self.at.get(number)
            && at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of arrived events.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The first arrival of an event.
    pub(super) fn of_event(&self, number: usize) -> Option<Instant> {
        let at = self.at.get(number)?.load(Ordering::Relaxed);
        (at > 0).then(|| self.began + Duration::from_nanos(at))
    }
}

/// Listens until it is dropped.
pub(super) struct Receiver {
    address: SocketAddr,
    _listening: AbortOnDropHandle<()>,
}

impl Receiver {
    pub(super) async fn start(arrivals: Arc<Arrivals>) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let arrivals = arrivals.clone();
                let answered = service_fn(move |request| answer(request, arrivals.clone()));
                // The sender notices a broken connection.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answered));
            }
        });
        Ok(Self { address, _listening: AbortOnDropHandle::new(listening) })
    }

    pub(super) fn url(&self, manner: Manner) -> String {
        format!("http://{}{}", self.address, manner.path())
    }
}

async fn answer(
    request: Request<Incoming>,
    arrivals: Arc<Arrivals>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let manner =
        [Manner::Takes, Manner::Refuses].into_iter().find(|manner| manner.path() == request.uri().path());
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Empty::new());
    *response.status_mut() = match manner {
        Some(Manner::Takes) => {
            if let Ok(Numbered { number }) = serde_json::from_slice(&body) {
                arrivals.note(number);
            }
            StatusCode::NO_CONTENT
        }
        Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
        None => std::future::pending().await,
    };
    Ok(response)
}
