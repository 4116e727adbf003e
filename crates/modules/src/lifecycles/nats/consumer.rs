//! Takes messages from a stream, as many at once as it may.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{self, AckKind, Message};
use backstitch::Retry;
use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::config::{BadConfig, Config};
use super::delivery::{Delivery, Verdict};
use super::durable::{self, Durable};
use super::line::Line;
use crate::lifecycles::Lifecycles;

/// How long the broker remembers that messages are wanted. One that forgets sooner, without a word, is asked again then.
const ASKED_FOR: Duration = Duration::from_secs(10);
/// How long is waited after the first trouble with the broker, and at most.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_AT_MOST: Duration = Duration::from_secs(10);
/// How long those under way may take to say their last word.
const LEAVING: Duration = Duration::from_secs(5);

/// Starts what messages ask for.
pub struct Consumer {
    inner: Arc<Inner>,
}

/// What all messages under way share.
pub(super) struct Inner {
    pub(super) lifecycles: Lifecycles,
    pub(super) config: Config,
    pub(super) line: Line,
    /// The numbers of those under way: the broker may be impatient, and deliver one twice.
    under_way: Mutex<HashSet<u64>>,
    /// What the operator was told last: the same is not told again.
    told: Mutex<Option<String>>,
}

impl Consumer {
    /// Gets ready. A broker that is down is no mistake: it is found when it comes.
    ///
    /// # Errors
    /// Every mistake in the settings, also in the files that they name.
    pub fn new(lifecycles: &Lifecycles, config: Config) -> Result<Self, BadConfig> {
        config.check()?;
        let inner = Inner {
            lifecycles: lifecycles.clone(),
            line: Line::to(&config)?,
            config,
            under_way: Mutex::default(),
            told: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes messages until `closing`, whatever becomes of the broker; those that are not finished then are for another
    /// node. Somebody has to [run](Lifecycles::run) the lifecycles meanwhile.
    pub async fn run(&self, closing: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let (leave, leaving) = watch::channel(false);
        tokio::select! {
            biased;
            () = closing => {}
            () = self.inner.take(&mut tasks, &leaving) => {}
        }
        leave.send_replace(true);
        let all_over = async { while tasks.join_next().await.is_some() {} };
        if timeout(LEAVING, all_over).await.is_err() {
            tracing::warn!(
                "the broker was not told about some messages: they come again when it has lost patience"
            );
        }
        self.inner.line.hang_up().await;
    }
}

impl Inner {
    /// Takes messages, over one connection after another.
    async fn take(self: &Arc<Self>, tasks: &mut JoinSet<()>, leaving: &watch::Receiver<bool>) {
        let retry = Retry::exponential(u32::MAX, AGAIN).with_cap(AGAIN_AT_MOST);
        let mut failures = 0;
        loop {
            let trouble = match self.line.connect().await {
                Ok(mut connected) => {
                    let context = jetstream::new(connected.client.clone());
                    tokio::select! {
                        why = self.pull(&context, tasks, leaving, &mut failures) => why,
                        () = connected.lost() => "the connection was lost".to_owned(),
                    }
                }
                Err(why) => why,
            };
            self.line.down();
            self.tell(&trouble);
            failures += 1;
            sleep(retry.wait(failures, 0)).await;
        }
    }

    /// Asks for messages and begins with each; why that ended.
    async fn pull(
        self: &Arc<Self>,
        context: &jetstream::Context,
        tasks: &mut JoinSet<()>,
        leaving: &watch::Receiver<bool>,
        failures: &mut u32,
    ) -> String {
        let Durable { consumer, patience, differences } = match durable::open(context, &self.config).await {
            Ok(durable) => durable,
            Err(why) => return why,
        };
        self.ready(&differences);
        loop {
            while tasks.len() >= self.config.concurrency && tasks.join_next().await.is_some() {}
            while tasks.try_join_next().is_some() {}
            let room = self.config.concurrency - tasks.len();
            let asked = consumer.batch().max_messages(room).expires(ASKED_FOR).messages().await;
            let mut messages = match asked {
                Ok(messages) => messages,
                Err(why) => return format!("messages cannot be asked for: {why}"),
            };
            while let Some(message) = messages.next().await {
                match message {
                    Ok(message) => {
                        *failures = 0;
                        self.begin(message, patience, tasks, leaving);
                    }
                    Err(why) => return format!("no messages come: {why}"),
                }
            }
            *failures = 0;
        }
    }

    /// Begins with a message, unless it is under way already.
    fn begin(
        self: &Arc<Self>,
        message: Message,
        patience: Duration,
        tasks: &mut JoinSet<()>,
        leaving: &watch::Receiver<bool>,
    ) {
        let Some(delivery) = Delivery::of(message, patience) else { return };
        let Some(only_one) = OnlyOne::of(self, &delivery) else {
            tracing::debug!(sequence = delivery.sequence, "a message came again that is under way");
            return;
        };
        let (inner, leaving) = (self.clone(), leaving.clone());
        tasks.spawn(async move { inner.deal_with(delivery, only_one, leaving).await });
    }

    async fn deal_with(&self, delivery: Delivery, only_one: OnlyOne, mut leaving: watch::Receiver<bool>) {
        let verdict = tokio::select! {
            verdict = delivery.handle(self) => verdict,
            () = delivery.keep_alive(self) => Verdict::Left,
            _ = leaving.wait_for(|leave| *leave) => Verdict::Left,
        };
        // What need not come again is not begun again before the broker knows; what is to come again may come at once.
        match verdict {
            Verdict::Done => {
                delivery.settle(self, AckKind::Ack).await;
                drop(only_one);
            }
            Verdict::Dead { reason } => {
                delivery.warn_of_dead(&reason);
                delivery.settle(self, AckKind::Term).await;
                drop(only_one);
            }
            Verdict::Later { why } => {
                drop(only_one);
                delivery.put_off(self, &why).await;
            }
            Verdict::Left => {
                drop(only_one);
                delivery.leave(self).await;
            }
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self, differences: &[String]) {
        let Config { stream, durable, subject, .. } = &self.config;
        if differences.is_empty() {
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) = None;
        } else {
            self.tell(&format!(
                "the consumer {durable} is another than configured: {}",
                differences.join("; ")
            ));
        }
        tracing::info!(%stream, %durable, %subject, "messages are taken");
    }

    fn tell(&self, trouble: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_deref() != Some(trouble) {
            tracing::warn!(stream = %self.config.stream, "starts that come from NATS: {trouble}");
            *told = Some(trouble.to_owned());
        }
    }
}

/// A message that is under way, and not twice.
struct OnlyOne {
    inner: Arc<Inner>,
    sequence: u64,
}

impl OnlyOne {
    fn of(inner: &Arc<Inner>, delivery: &Delivery) -> Option<Self> {
        let sequence = delivery.sequence;
        inner.under_way().insert(sequence).then(|| Self { inner: inner.clone(), sequence })
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        self.inner.under_way().remove(&self.sequence);
    }
}
