//! Where the messages of a topic go, and how hard it is tried.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch_kernel::Timestamp;
use backstitch_kernel::delivery::Policy;

use super::sink::{LogSink, Sink};
use crate::store::outbox::ALERTS;

/// Waits between sends of one message, in seconds, unless told.
const BACKOFF: [u64; 6] = [5, 10, 20, 40, 80, 160];
const MAX_ATTEMPTS: u32 = 6;
const CONCURRENCY: usize = 4;
/// A receiver may ask for this long a wait, be every wait of the route's own shorter.
const LONGEST_WISH: Duration = Duration::from_secs(3600);

/// How the messages of a topic are sent.
#[derive(Clone)]
pub struct Route {
    /// Where they go.
    pub sink: Arc<dyn Sink>,
    /// Messages on their way at once.
    pub concurrency: usize,
    /// Sends of one message before it is given up; without a limit it is tried for ever.
    pub max_attempts: Option<u32>,
    /// The waits between them; the last one serves whatever comes after.
    pub backoff: Vec<Duration>,
    /// How long one send may take; [`Options::send_timeout`](crate::Options::send_timeout) unless told.
    pub timeout: Option<Duration>,
}

impl Route {
    /// Six sends at most, 5 to 160 seconds apart, four messages at once.
    #[must_use]
    pub fn to(sink: Arc<dyn Sink>) -> Self {
        Self {
            sink,
            concurrency: CONCURRENCY,
            max_attempts: Some(MAX_ATTEMPTS),
            backoff: BACKOFF.map(Duration::from_secs).to_vec(),
            timeout: None,
        }
    }

    pub(super) fn policy(&self, expires_at: Option<Timestamp>) -> Policy {
        let policy = Policy::after_each(self.max_attempts, self.backoff.clone());
        let last = self.backoff.last().copied().unwrap_or_default();
        Policy { expires_at, max_delay: last.max(LONGEST_WISH), ..policy }
    }

    fn mistakes(&self, topic: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.concurrency == 0 {
            mistakes.push(format!("the route of {topic}: concurrency must be at least 1"));
        }
        if self.max_attempts == Some(0) {
            mistakes
                .push(format!("the route of {topic}: max_attempts must be at least 1, or none for no limit"));
        }
        if self.backoff.is_empty() {
            mistakes.push(format!("the route of {topic}: backoff must name at least one wait"));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            mistakes.push(format!("the route of {topic}: timeout must be longer than nothing"));
        }
        mistakes
    }
}

/// The routes of all topics. A message of a topic without one waits.
#[derive(Clone)]
pub struct Routes {
    by_topic: BTreeMap<String, Route>,
    others: Option<Route>,
}

impl Default for Routes {
    /// Everything goes to the log.
    fn default() -> Self {
        Self::all_to(Arc::new(LogSink))
    }
}

impl Routes {
    /// No route at all.
    #[must_use]
    pub fn none() -> Self {
        Self { by_topic: BTreeMap::new(), others: None }
    }

    /// Every topic has this sink.
    #[must_use]
    pub fn all_to(sink: Arc<dyn Sink>) -> Self {
        Self { by_topic: BTreeMap::new(), others: Some(Route::to(sink)) }
    }

    /// The same, with a topic of its own route.
    #[must_use]
    pub fn with(mut self, topic: impl Into<String>, route: Route) -> Self {
        self.by_topic.insert(topic.into(), route);
        self
    }

    /// The route of a topic. An alert is owed to somebody: it is tried until it is out.
    #[must_use]
    pub fn of(&self, topic: &str) -> Option<Route> {
        let route = self.by_topic.get(topic).or(self.others.as_ref()).cloned()?;
        let max_attempts = if topic == ALERTS { None } else { route.max_attempts };
        Some(Route { max_attempts, ..route })
    }

    /// Whether messages of this topic go anywhere.
    #[must_use]
    pub fn has(&self, topic: &str) -> bool {
        self.others.is_some() || self.by_topic.contains_key(topic)
    }

    /// The topics that have routes of their own.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.by_topic.keys().map(String::as_str)
    }

    pub(crate) fn mistakes(&self) -> Vec<String> {
        let named = self.by_topic.iter().flat_map(|(topic, route)| route.mistakes(&format!("`{topic}`")));
        let others = self.others.iter().flat_map(|route| route.mistakes("the other topics"));
        named.chain(others).collect()
    }
}
