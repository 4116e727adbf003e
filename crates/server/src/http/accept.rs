//! Accepts connections and serves each within its limits.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures::future::Either;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::activity::{Activity, Answering, Patience};
use super::long_answer;
use super::socket::{Held, Socket};
use super::version::{self, Version};
use crate::config::Limits;
use crate::problem::{Kind, Problem};

/// Connections that are being turned away at once; beyond that they are just closed.
const TURNING_AWAY: usize = 64;
/// How long somebody who is turned away, or given up, gets to hear of it.
const LAST_WORD: Duration = Duration::from_secs(1);
/// How long to wait when the machine has no room for another connection.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);
/// How long the head of a request may be on HTTP/1 to be read for sure. A few times that much may be held in memory, and
/// nothing longer is read.
const HTTP_1_BUFFER: usize = 32 * 1024;
/// Streams of one HTTP/2 connection at once.
const HTTP_2_STREAMS: u32 = 256;

/// Whether what is asked for is done although whoever asked goes away: it was sent as a whole, and somebody may rely on it. Work is
/// leased only to a worker that is there to get it.
pub(super) fn goes_on_alone<B>(request: &Request<B>) -> bool {
    !request.method().is_safe() && request.uri().path() != "/v1/jobs/lease"
}

fn cut_short() -> Response {
    Problem::new(Kind::Internal, "the request was cut short: ask again").into_response()
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves a router on a listener.
pub(crate) struct Acceptor {
    router: Router,
    limits: Arc<Limits>,
    http_1: http1::Builder,
    http_2: http2::Builder<TokioExecutor>,
    places: Arc<Semaphore>,
    turning_away: Arc<Semaphore>,
    closing: CancellationToken,
    open: TaskTracker,
}

impl Acceptor {
    /// When `closing` is cancelled nothing new is accepted, and what is under way is finished.
    pub(crate) fn new(router: Router, limits: &Limits, closing: CancellationToken) -> Self {
        let mut http_1 = http1::Builder::new();
        // Patience limits the time for a head: hyper's timer would also cut connections that are merely idle.
        http_1.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HTTP_1_BUFFER);
        let mut http_2 = http2::Builder::new(TokioExecutor::new());
        http_2.timer(TokioTimer::new()).max_concurrent_streams(HTTP_2_STREAMS);
        Self {
            router,
            limits: Arc::new(limits.clone()),
            http_1,
            http_2,
            places: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))),
            turning_away: Arc::new(Semaphore::new(TURNING_AWAY)),
            closing,
            open: TaskTracker::new(),
        }
    }

    /// Accepts until it is told to close, then waits for what is under way, for so long at most.
    pub(crate) async fn run(self, listener: TcpListener, grace: Duration) {
        let acceptor = Arc::new(self);
        loop {
            tokio::select! {
                accepted = listener.accept() => acceptor.take(accepted).await,
                () = acceptor.closing.cancelled() => break,
            }
        }
        // Whoever comes now is refused by the machine, and tries another node.
        drop(listener);
        acceptor.open.close();
        if timeout(grace, acceptor.open.wait()).await.is_err() {
            tracing::warn!(
                connections = acceptor.open.len(),
                "connections were cut: the grace period is over"
            );
        }
    }

    async fn take(self: &Arc<Self>, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(why) => {
                tracing::warn!(%why, "a connection could not be accepted");
                tokio::time::sleep(OUT_OF_SOCKETS).await;
                return;
            }
        };
        match self.places.clone().try_acquire_owned() {
            Ok(place) => {
                let serving = self.clone().serve(stream, peer, place);
                tokio::spawn(serving);
            }
            Err(_) => self.turn_away(stream),
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        // Answers are small and somebody waits for each. A socket that refuses is closed already.
        let _ = stream.set_nodelay(true);
        let since = Instant::now();
        let Some(version) = self.version_of(&stream).await else { return };
        let activity = Activity::new(version, since);
        let mut held = Held { stream, _place: place, _open: self.open.token() };
        loop {
            let write_timeout = self.limits.write_timeout;
            let socket = Socket::new(held, activity.clone(), write_timeout);
            let Some((taken, body)) = self.speak(version, socket, &activity, peer).await else { return };
            let answering = activity.answering();
            let socket = Socket::new(taken, activity.clone(), write_timeout);
            let Some(given_back) = long_answer::write(socket, body).await else { return };
            drop(answering);
            if self.closing.is_cancelled() {
                return;
            }
            held = given_back;
        }
    }

    /// Speaks HTTP until the connection ends, or until the rest of an answer is to be written without hyper.
    async fn speak(
        &self,
        version: Version,
        socket: Socket,
        activity: &Arc<Activity>,
        peer: SocketAddr,
    ) -> Option<(Held, Body)> {
        let service = service_fn(|request: Request<Incoming>| {
            let answering = activity.answering();
            let may_go_on = long_answer::may_follow(&request);
            let goes_on = goes_on_alone(&request);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            let answer = self.router.clone().call(request);
            let answer = if goes_on { Either::Left(self.open.spawn(answer)) } else { Either::Right(answer) };
            let activity = activity.clone();
            async move {
                let mut response = match answer {
                    Either::Left(answer) => answer.await.unwrap_or_else(|_| Ok(cut_short()))?,
                    Either::Right(answer) => answer.await?,
                };
                if may_go_on && long_answer::goes_on(&response) {
                    let body = std::mem::replace(response.body_mut(), nothing_more());
                    if let Err(body) = activity.write_elsewhere(body) {
                        *response.body_mut() = body;
                    }
                }
                Ok::<_, Infallible>(response.map(|body| Answer { body, _answering: answering }))
            }
        });
        let socket = TokioIo::new(socket);
        let patience = Patience::new(activity.clone(), self.limits.clone());
        match version {
            Version::Http1 => {
                let connection = self.http_1.serve_connection(socket, service).with_upgrades();
                let end = http1::UpgradeableConnection::graceful_shutdown;
                self.attend(connection, end, activity, patience).await
            }
            Version::Http2 => {
                let connection = self.http_2.serve_connection(socket, service);
                let end = http2::Connection::graceful_shutdown;
                // In a box: every connection would have the room for it otherwise.
                Box::pin(self.attend(connection, end, activity, patience)).await
            }
        }
    }

    /// Serves a connection until it ends, patience with it does, the server closes and it is done, or an answer of its
    /// goes on elsewhere.
    async fn attend<C: Future>(
        &self,
        connection: C,
        end_after_this: impl Fn(Pin<&mut C>),
        activity: &Activity,
        patience: Patience,
    ) -> Option<(Held, Body)> {
        let mut connection = pin!(connection);
        let mut patience = pin!(patience);
        let mut closing = false;
        loop {
            tokio::select! {
                biased;
                // An error is the client's going away, or its not speaking HTTP; neither is ours to mend.
                _ = connection.as_mut() => return None,
                long_answer = activity.long_answer() => return Some(long_answer),
                () = patience.as_mut() => {
                    if !closing {
                        end_after_this(connection.as_mut());
                        let _ = timeout(LAST_WORD, connection).await;
                    }
                    return None;
                }
                () = self.closing.cancelled(), if !closing => {
                    closing = true;
                    end_after_this(connection.as_mut());
                }
            }
        }
    }

    /// What the client speaks; `None` if it says nothing in time. The library's own way of telling reads the beginning
    /// apart from the rest, and then keeps twice the memory for every connection there is.
    async fn version_of(&self, stream: &TcpStream) -> Option<Version> {
        tokio::select! {
            version = timeout(self.limits.header_timeout, version::spoken_on(stream)) => version.ok()?.ok(),
            () = self.closing.cancelled() => None,
        }
    }

    /// Says that there are too many, to as many as can be told at once.
    fn turn_away(&self, mut stream: TcpStream) {
        let Ok(told) = self.turning_away.clone().try_acquire_owned() else { return };
        tokio::spawn(async move {
            let answer = too_many_connections();
            let last_word = async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
                // What is left unread when a socket is closed makes it forget what was written.
                let mut unread = [0; 1024];
                while stream.read(&mut unread).await? > 0 {}
                io::Result::Ok(())
            };
            let _ = timeout(LAST_WORD, last_word).await;
            drop(told);
        });
    }
}

fn too_many_connections() -> String {
    let problem = Problem::new(
        Kind::TooManyConnections,
        "too many connections are open: close some, keep fewer alive, or ask again in a moment",
    );
    let body = problem.body();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Stands for a body that is written elsewhere.
fn nothing_more() -> Body {
    Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())
}

/// An answer's body. The request counts as being answered until it is sent or dropped.
struct Answer {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
