//! Follows a saga to its end, reconnecting as needed.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use super::client::{Ask, Error, segment};
use super::event::{Course, Event};
use super::listing::ListPage;
use super::near::unknown_saga;
use super::progress::Progress;
use super::session::{Session, Waits};
use super::status::worded;
use super::text::shown;
use crate::commands::{Failure, Signals};
use backstitch_api::sse::{SseDecoder, SseEvent};

/// A silent stream is dead after this time: the server sends something every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(50);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Events per page of a log.
const PAGE: u32 = 1000;

/// Options for following.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Patience {
    /// How long to try to reconnect after the connection is lost.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = backstitch::kernel::parse_duration)]
    pub(crate) patience: Duration,
}

/// Shows a saga's events after this one, to its end. Fails if the saga did not succeed.
pub(crate) async fn follow(
    session: &Session,
    id: &str,
    after: u64,
    patience: Duration,
) -> Result<(), Failure> {
    let path = format!("/v1/sagas/{}", segment(id));
    let id = &shown(id);
    let saga = match session.ask(Ask::get(&path)).await {
        Ok(answer) => answer.value,
        Err(error) => return Err(unknown_saga(session, id, error).await),
    };
    let course = course_up_to(session, &path, &saga, after).await?;
    let mut signals = Signals::listen()?;
    let progress = Progress::of(&saga, course, session.output);
    let mut follower = Follower { session, id, path, last: after, patience, progress };
    let ended = tokio::select! {
        ended = follower.watch() => Some(ended),
        () = signals.next() => None,
    };
    follower.progress.end();
    match ended {
        Some(ended) => follower.tell(&ended?),
        None => Err(format!(
            "no longer following: saga {id} continues without this command; follow it again with `{}`",
            follower.again()
        )
        .into()),
    }
}

/// The state of the steps after this event.
async fn course_up_to(session: &Session, path: &str, saga: &Value, after: u64) -> Result<Course, Error> {
    let mut course = Course::of(saga);
    let log = format!("{path}/log");
    let (mut seen, mut cursor) = (0, None);
    while seen < after {
        let page = ListPage::get(session, &log, &[], Some(PAGE), cursor).await?;
        for item in page.items() {
            let event = Event::deserialize(&item)
                .map_err(|why| session.client.stranger(&format!("its log cannot be read: {why}")))?;
            seen = event.seq;
            if seen <= after {
                course.take(&event);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(course)
}

struct Follower<'a> {
    session: &'a Session,
    id: &'a str,
    path: String,
    /// The number of the last shown event.
    last: u64,
    patience: Duration,
    progress: Progress,
}

/// An open stream.
struct Stream {
    body: Incoming,
    decoder: SseDecoder,
}

impl Follower<'_> {
    /// Shows events until the saga has ended, and returns it.
    async fn watch(&mut self) -> Result<Value, Failure> {
        let mut outage: Option<Outage> = None;
        loop {
            let error = match self.once(&mut outage).await {
                Ok(Some(saga)) => return Ok(saga),
                // The server ended the stream although the saga is active: it is shutting down.
                Ok(None) => Lost::Connection("the server ended the stream".to_owned()),
                Err(lost) => lost,
            };
            let (why, asked) = match error {
                Lost::Connection(why) => (why, None),
                Lost::Error(error) if error.may_pass() => {
                    (error.why(), error.refusal().and_then(super::problem::Refusal::wait))
                }
                Lost::Error(error) => return Err(error.into()),
                Lost::Failure(why) => return Err(why),
            };
            let lost = outage.get_or_insert_with(|| {
                self.progress.aside(&format!(
                    "! lost the server at {} ({why}); trying again for {}",
                    self.session.client.server,
                    humantime::format_duration(self.patience)
                ));
                Outage { began: Instant::now(), waits: Waits::default() }
            });
            let left = self.patience.saturating_sub(lost.began.elapsed());
            if left.is_zero() {
                return Err(self.gave_up(&why).into());
            }
            tokio::time::sleep(lost.waits.next(asked).min(left)).await;
        }
    }

    /// Shows events until the connection ends. Returns the saga if it has ended.
    async fn once(&mut self, outage: &mut Option<Outage>) -> Result<Option<Value>, Lost> {
        if let Some(mut stream) = self.open().await? {
            while let Some(sent) = self.next(&mut stream, outage).await? {
                self.show(&sent)?;
            }
        }
        let saga = self.session.ask(Ask::get(&self.path)).await.map_err(Lost::Error)?.value;
        let has_ended = matches!(saga["status"].as_str(), Some("succeeded" | "failed" | "compensated"));
        Ok(has_ended.then_some(saga))
    }

    /// Opens a stream after the last event; none if the saga has ended and nothing was missed.
    async fn open(&self) -> Result<Option<Stream>, Lost> {
        let mut ask = Ask::get(format!("{}/events", self.path));
        if self.last > 0 {
            ask = ask.header(LAST_EVENT_ID, self.last.to_string());
        }
        let response = self.session.client.open(ask).await.map_err(Lost::Error)?;
        let is_over = response.status() == StatusCode::NO_CONTENT;
        Ok((!is_over).then(|| Stream { body: response.into_body(), decoder: SseDecoder::default() }))
    }

    async fn next(&self, stream: &mut Stream, outage: &mut Option<Outage>) -> Result<Option<SseEvent>, Lost> {
        loop {
            if let Some(sent) = stream.decoder.next_event() {
                return Ok(Some(sent));
            }
            let silent = || Lost::Connection(format!("it has said nothing for {SILENCE:?}"));
            let frame = tokio::time::timeout(SILENCE, stream.body.frame()).await.map_err(|_| silent())?;
            let bytes = match frame {
                None => return Ok(None),
                Some(Err(why)) => return Err(Lost::Connection(shown(&why.to_string()))),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            if outage.take().is_some() {
                self.progress.aside(&format!("✓ back: going on after event {}", self.last));
            }
            stream.decoder.push(&bytes).map_err(|why| Lost::Failure(why.into()))?;
        }
    }

    fn show(&mut self, sent: &SseEvent) -> Result<(), Lost> {
        let event: Event = serde_json::from_str(&sent.data).map_err(|why| {
            Lost::Error(self.session.client.stranger(&format!("its event cannot be read: {why}")))
        })?;
        let number = sent.id.unwrap_or(event.seq);
        // Even if a proxy repeats data, no event is shown twice.
        if number > self.last {
            self.last = number;
            self.progress.event(&event, &sent.data).map_err(Lost::Failure)?;
        }
        Ok(())
    }

    fn again(&self) -> String {
        let server = &self.session.client.server;
        let server = if server.to_string() == super::client::USUAL_SERVER {
            String::new()
        } else {
            format!(" --server {server}")
        };
        format!("backstitch follow {} --after {}{server}", self.id, self.last)
    }

    fn gave_up(&self, why: &str) -> String {
        format!(
            "the server at {} did not respond within {} ({why})\n  saga {} is durable and continues once a server runs; \
             event {} was the last one seen\n  follow it again with `{}`",
            self.session.client.server,
            humantime::format_duration(self.patience),
            self.id,
            self.last,
            self.again()
        )
    }

    /// Prints the final status and returns the exit code.
    fn tell(&self, saga: &Value) -> Result<(), Failure> {
        let status = saga["status"].as_str().unwrap_or_default();
        let line = format!("{}: saga {}", worded(status), self.id);
        let why = self.progress.why().map(|why| format!(" ({why})")).unwrap_or_default();
        match status {
            "succeeded" => Ok(self.session.output.line(&line)?),
            "compensated" => Err(format!("{line} was rolled back{why}").into()),
            _ => Err(format!(
                "{line} could not be rolled back{why}\n  `backstitch show {id}` shows which steps are stuck; decide with \
                 `backstitch resolve {id} STEP retry|skip|done --note WHY`",
                id = self.id
            )
            .into()),
        }
    }
}

/// A time without a connection.
struct Outage {
    began: Instant,
    waits: Waits,
}

/// Why a connection ended early.
enum Lost {
    Connection(String),
    Error(Error),
    Failure(Failure),
}
