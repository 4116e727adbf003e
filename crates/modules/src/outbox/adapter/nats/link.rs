//! The one connection of a topic, over which any number of messages are on their way at once.
//!
//! It is made when it is first needed, and made anew when it was lost. The client's own way of reconnecting is not relied
//! on: it keeps what it was given while the broker is away and publishes it whenever that comes back, long after the
//! message may have been given up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectError, ConnectOptions, Event, Request, ServerAddr, ServerError};
use backstitch::sink::Undelivered;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::answer::{Answer, unanswered};
use super::window::Watched;
use crate::outgoing::nats::Unconnected;

/// How long a broker that could not be reached is left alone: messages that are due meanwhile need not ask as well.
const LEFT_ALONE: Duration = Duration::from_millis(250);
/// The client tries this once after a loss; then the next message makes a new connection.
const RECONNECTS: usize = 1;
/// So much trouble is remembered for whoever has not heard of it yet.
const TROUBLES: usize = 64;

/// Whom a link leads to.
pub(super) struct Target {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) options: ConnectOptions,
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
        let connecting = tokio::spawn(connect(self.target.servers.clone(), self.target.options.clone()));
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

async fn connect(servers: Vec<ServerAddr>, options: ConnectOptions) -> Result<Life, Undelivered> {
    let (troubles, _) = broadcast::channel(TROUBLES);
    let told = troubles.clone();
    let options = options.max_reconnects(RECONNECTS).event_callback(move |event| {
        if let Some(trouble) = Trouble::in_event(&event) {
            // Nobody may be waiting.
            let _ = told.send(trouble);
        }
        async {}
    });
    let client = options.connect(servers).await.map_err(|why| unconnected(&why))?;
    Ok(Life { client, troubles, given_up: AtomicBool::new(false) })
}

fn unconnected(error: &ConnectError) -> Undelivered {
    match Unconnected::from(error) {
        Unconnected::NotAuthorized(why) => Undelivered::new("not_authorized", why),
        Unconnected::Down(why) => Undelivered::new("broker_down", why),
    }
}

/// What went wrong with a connection while messages were on their way over it.
#[derive(Clone)]
enum Trouble {
    Lost,
    /// The broker does not answer what it forbids: it only complains. It says about which subject, and not about which
    /// message.
    MayNotPublish {
        subject: String,
        said: String,
    },
    /// No answer can be heard.
    MayNotSubscribe {
        said: String,
    },
}

impl Trouble {
    fn in_event(event: &Event) -> Option<Self> {
        match event {
            Event::Disconnected | Event::Closed => Some(Self::Lost),
            Event::ServerError(ServerError::Other(said)) => {
                let said_lower = said.to_lowercase();
                if !said_lower.contains("permissions violation") {
                    return None;
                }
                let said = said.clone();
                if said_lower.contains("for subscription") {
                    return Some(Self::MayNotSubscribe { said });
                }
                let subject = said.split('"').nth(1)?.to_owned();
                Some(Self::MayNotPublish { subject, said })
            }
            _ => None,
        }
    }

    /// What it means for a message that waits for its answer; `None` if it is none of its concern.
    fn for_one_to(self, waiting: &str) -> Option<Undelivered> {
        match self {
            Self::Lost => Some(Undelivered::new(
                "connection_lost",
                "the connection was lost before the broker acknowledged: it may have it",
            )),
            Self::MayNotPublish { subject, said } => {
                (subject == waiting).then(|| not_permitted(&said, waiting))
            }
            Self::MayNotSubscribe { said } => Some(not_permitted(&said, waiting)),
        }
    }
}

fn not_permitted(said: &str, subject: &str) -> Undelivered {
    let told = format!(
        "the broker forbids it ({said}): let this login publish to {subject} and subscribe to _INBOX.>"
    );
    Undelivered::new("not_permitted", told)
}

/// One connection from its beginning to its end.
pub(super) struct Life {
    client: Client,
    /// What goes wrong, for all who wait.
    troubles: broadcast::Sender<Trouble>,
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
        let mut troubles = self.troubles.subscribe();
        tokio::select! {
            biased;
            answered = self.client.send_request(subject.to_owned(), request) => {
                answered.map(|message| Answer::new(message.payload)).map_err(|why| unanswered(&why, subject))
            }
            trouble = trouble_for(subject, &mut troubles) => {
                self.give_up();
                Err(trouble)
            }
        }
    }
}

/// Waits for trouble that concerns a message to this subject.
async fn trouble_for(subject: &str, troubles: &mut broadcast::Receiver<Trouble>) -> Undelivered {
    loop {
        let trouble = match troubles.recv().await {
            Ok(trouble) => trouble,
            // What was missed is found out by the deadline.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => Trouble::Lost,
        };
        if let Some(why) = trouble.for_one_to(subject) {
            return why;
        }
    }
}
