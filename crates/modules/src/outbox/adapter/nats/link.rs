//! The one connection of a topic, over which any number of messages are on their way at once.
//!
//! It is made when it is first needed, and made anew when it was lost. The client's own way of reconnecting is not relied
//! on: it keeps what it was given while the broker is away and publishes it whenever that comes back, long after the
//! message may have been given up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, Request, ServerAddr, ServerError,
};
use backstitch::sink::Undelivered;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{Answer, unanswered};
use super::window::Watched;
use crate::outgoing::reason;

/// How long a broker that could not be reached is left alone: messages that are due meanwhile need not ask as well.
const LEFT_ALONE: Duration = Duration::from_millis(250);
/// The client tries this once after a loss; then the next message makes a new connection.
const RECONNECTS: usize = 1;

/// Whom a link leads to.
pub(super) struct Target {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) options: ConnectOptions,
    pub(super) subject: String,
    pub(super) watched: Arc<Watched>,
}

/// A connection that comes and goes.
pub(super) struct Link {
    target: Target,
    newest: Mutex<Option<Attempt>>,
}

/// One try to connect, which everybody who needs it waits for.
type Attempt = Shared<BoxFuture<'static, Result<Arc<Life>, Failure>>>;

#[derive(Clone)]
struct Failure {
    why: Undelivered,
    at: Instant,
}

impl Link {
    pub(super) fn to(target: Target) -> Self {
        Self { target, newest: Mutex::default() }
    }

    /// The connection, once there is one.
    pub(super) async fn life(&self) -> Result<Arc<Life>, Undelivered> {
        let attempt = {
            let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
            match newest.as_ref().filter(|attempt| is_worth_waiting_for(attempt)) {
                Some(attempt) => attempt.clone(),
                None => newest.insert(self.attempt()).clone(),
            }
        };
        attempt.await.map_err(|failure| failure.why)
    }

    /// A task of its own: it goes on if whoever began it has no more time.
    fn attempt(&self) -> Attempt {
        let connecting = tokio::spawn(connect(
            self.target.servers.clone(),
            self.target.options.clone(),
            self.target.subject.clone(),
        ));
        let watched = self.target.watched.clone();
        let attempt = async move {
            let connected = connecting.await.unwrap_or_else(|broken| {
                Err(Undelivered::new("broker_down", format!("the connection could not be made: {broken}")))
            });
            let life = connected.map_err(|why| Failure { why, at: Instant::now() })?;
            tokio::spawn(watched.look(life.client.clone()));
            Ok(Arc::new(life))
        };
        attempt.boxed().shared()
    }
}

fn is_worth_waiting_for(attempt: &Attempt) -> bool {
    match attempt.peek() {
        None => true,
        Some(Ok(life)) => life.is_up(),
        Some(Err(failure)) => failure.at.elapsed() < LEFT_ALONE,
    }
}

async fn connect(
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    subject: String,
) -> Result<Life, Undelivered> {
    let (told, trouble) = watch::channel(None);
    let told = Arc::new(told);
    let options = options.max_reconnects(RECONNECTS).event_callback(move |event| {
        if let Some(why) = trouble_in(&event, &subject) {
            told.send_replace(Some(why));
        }
        async {}
    });
    let client = options.connect(servers).await.map_err(|why| unconnected(&why))?;
    Ok(Life { client, trouble, given_up: AtomicBool::new(false) })
}

fn unconnected(error: &ConnectError) -> Undelivered {
    let why = reason(error);
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            Undelivered::new("not_authorized", format!("the broker refuses the login ({error}): correct it"))
        }
        kind => Undelivered::new("broker_down", format!("no connection to the broker: {kind}: {why}")),
    }
}

/// What an event means for whatever waits for an answer. The broker does not answer what it forbids: it only complains, and
/// without saying about which message; but all of them go to one subject.
fn trouble_in(event: &Event, subject: &str) -> Option<Undelivered> {
    match event {
        Event::Disconnected | Event::Closed => Some(Undelivered::new(
            "connection_lost",
            "the connection was lost before the broker acknowledged: it may have it",
        )),
        Event::ServerError(ServerError::Other(said)) => {
            let said_lower = said.to_lowercase();
            let is_about_us =
                said.contains(&format!("\"{subject}\"")) || said_lower.contains("for subscription");
            (said_lower.contains("permissions violation") && is_about_us).then(|| {
                Undelivered::new(
                    "not_permitted",
                    format!(
                        "the broker forbids it ({said}): let this login publish to {subject} and subscribe to _INBOX.>"
                    ),
                )
            })
        }
        _ => None,
    }
}

/// One connection from its beginning to its end.
pub(super) struct Life {
    client: Client,
    /// What went wrong last, for all who wait.
    trouble: watch::Receiver<Option<Undelivered>>,
    given_up: AtomicBool,
}

impl Life {
    fn is_up(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed) && self.client.connection_state() == State::Connected
    }

    /// Nothing more is sent over it; what is under way may still be answered.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Publishes and waits for the answer to this one message.
    pub(super) async fn ask(&self, subject: &str, request: Request) -> Result<Answer, Undelivered> {
        let mut trouble = self.trouble.clone();
        trouble.mark_unchanged();
        tokio::select! {
            biased;
            answered = self.client.send_request(subject.to_owned(), request) => {
                answered.map(|message| Answer::new(message.payload)).map_err(|why| unanswered(&why, subject))
            }
            Ok(()) = trouble.changed() => {
                self.give_up();
                let why = trouble.borrow().clone();
                Err(why.unwrap_or_else(|| Undelivered::new("connection_lost", "the connection was lost")))
            }
        }
    }
}
