//! One message, from its arrival until the broker is told what became of it.

use std::pin::pin;
use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::{AckKind, Message};
use backstitch::Retry;
use backstitch::kernel::lifecycle::{Kind, Machine, Refused};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::time::{Instant, interval_at, sleep};

use super::consumer::Inner;
use super::request::Request;
use crate::lifecycles::dead_letters::Unreadable;
use crate::lifecycles::{Error, Standing};

/// After how long a log that cannot be read is tried again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// After how long a message comes again that could not be dealt with, at first and at most.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(30);

/// A message as it was delivered.
pub(super) struct Delivery {
    body: Bytes,
    reply: Subject,
    /// Its number in the stream.
    pub(super) sequence: u64,
    /// Tells it from every other message, also of a stream of the same name that was created anew.
    mark: String,
    /// How often it was delivered.
    delivered: u32,
    /// How often the broker wants to hear that somebody is at it.
    heartbeat: Duration,
}

/// What becomes of a message.
pub(super) enum Verdict {
    /// Nothing is left to do.
    Done,
    /// Nobody will ever make sense of it; it is kept.
    Dead { reason: String },
    /// It is to come again.
    Later { why: String },
    /// It is for somebody else.
    Left,
}

impl Delivery {
    /// None where it is no message of a stream.
    pub(super) fn of(message: Message, patience: Duration) -> Option<Self> {
        let info = message.info().ok()?;
        let (sequence, published) = (info.stream_sequence, info.published.unix_timestamp_nanos());
        let mark = format!("{}:{sequence}:{published}", info.stream);
        let delivered = u32::try_from(info.delivered).unwrap_or(1);
        let message = message.message;
        let (body, reply) = (message.payload, message.reply?);
        Some(Self { body, reply, sequence, mark, delivered, heartbeat: patience / 3 })
    }

    /// Does what it asks for.
    pub(super) async fn handle(&self, inner: &Inner) -> Verdict {
        let machine = &inner.config.machine;
        let Request { key, given } = match Request::read(machine, &self.body) {
            Ok(request) => request,
            Err(reason) => return self.bury(inner, reason).await,
        };
        match inner.lifecycles.start(machine, &key, given).await {
            Ok(moved) => match until_it_rests(inner, &moved.standing).await {
                Ok(()) => Verdict::Done,
                Err(error) => Verdict::Later { why: error.to_string() },
            },
            Err(Error::Refused { why: Refused::Ended { .. }, .. }) => Verdict::Done,
            Err(error @ (Error::Invalid { .. } | Error::Refused { .. } | Error::UnknownKey { .. })) => {
                self.bury(inner, error.to_string()).await
            }
            // Whatever is wrong is not wrong with the message: the machine is named by the settings, and may come yet.
            Err(error) => Verdict::Later { why: error.to_string() },
        }
    }

    async fn bury(&self, inner: &Inner, reason: String) -> Verdict {
        let letter = Unreadable {
            source: format!("nats:{}", inner.config.stream),
            mark: self.mark.clone(),
            reason: &reason,
            body: &self.body,
        };
        match inner.lifecycles.keep_dead_letter(letter).await {
            Ok(_) => Verdict::Dead { reason },
            Err(error) => Verdict::Later { why: error.to_string() },
        }
    }

    /// Tells the broker that somebody is at it, for as long as this is waited for.
    pub(super) async fn keep_alive(&self, inner: &Inner) {
        let mut beats = interval_at(Instant::now() + self.heartbeat, self.heartbeat);
        loop {
            beats.tick().await;
            inner.line.say(&self.reply, AckKind::Progress).await;
        }
    }

    /// Tells the broker that the message need not come again.
    pub(super) async fn settle(&self, inner: &Inner, how: AckKind) {
        if !inner.line.confirm(&self.reply, how).await {
            tracing::warn!(message = %self.mark, "the broker does not confirm an acknowledgement: the message may come again");
        }
    }

    /// Lets somebody else have it at once.
    pub(super) async fn leave(&self, inner: &Inner) {
        inner.line.say(&self.reply, AckKind::Nak(None)).await;
    }

    /// Lets it come again, later each time.
    pub(super) async fn put_off(&self, inner: &Inner, why: &str) {
        let retry = Retry::exponential(u32::MAX, AGAIN).with_cap(AGAIN_AT_MOST).with_jitter(20);
        let wait = retry.wait(self.delivered, self.sequence);
        tracing::warn!(message = %self.mark, ?wait, "a message cannot be dealt with yet, and comes again: {why}");
        inner.line.say(&self.reply, AckKind::Nak(Some(wait))).await;
    }

    pub(super) fn warn_of_dead(&self, reason: &str) {
        tracing::warn!(message = %self.mark, "a message makes no sense and is kept as a dead letter: {reason}");
    }
}

/// Waits until the engine has nothing left to do for what was started.
async fn until_it_rests(inner: &Inner, started: &Standing) -> Result<(), Error> {
    let machine = inner.lifecycles.machines.machine(&started.machine, started.version).await?;
    if rests(&machine, &started.instance.state) {
        return Ok(());
    }
    let mut seen = started.instance.seq;
    loop {
        let mut events = pin!(inner.lifecycles.follow(started, seen).await?);
        let error = loop {
            match events.next().await {
                // It has ended, and may have been cleared away.
                None | Some(Err(backstitch::Error::NotFound(_))) => return Ok(()),
                Some(Ok(recorded)) => {
                    if recorded.event.state().is_some_and(|state| rests(&machine, state)) {
                        return Ok(());
                    }
                    seen = recorded.seq;
                }
                Some(Err(error)) => break error,
            }
        };
        // Not started again: that would be another attempt.
        tracing::debug!(%error, "what was started cannot be followed; retrying");
        sleep(READ_AGAIN).await;
    }
}

/// Whether the engine has nothing to do in a state.
fn rests(machine: &Machine, state: &str) -> bool {
    match machine.kind(state) {
        // Workers have it, or will: what they wait for is on disk.
        Some(Kind::Passing) => machine.action(state).is_none() || machine.outside(state).is_some(),
        Some(Kind::Pause(_) | Kind::Terminal) | None => true,
    }
}
