//! What can be set about the outbox, as it stands under `[outbox.topics.NAME]` and `[outbox.sagas]` in the server's
//! configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::Clock;
use backstitch::kernel::topic::{RESERVED, is_reserved};
use backstitch::outbox::{Route, TopicPattern};
use backstitch::sink::{LogSink, Sink};
use backstitch::store::outbox::SAGAS;
use backstitch::{Announced, Retry};
use backstitch_api::validate::quoted;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::adapter::{Adapter, Topic};
use crate::settings::{DEFAULT_TIMEOUT, duration, durations, late};

/// What the engine waits beyond a send's own deadline, so that it can say what was late.
const LAST_WORD: Duration = Duration::from_secs(1);
const LONGEST_NAME: usize = 200;
const MOST_AT_ONCE: usize = 10_000;
const MOST_ATTEMPTS: u32 = 1_000;
const MOST_WAITS: usize = 100;
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is said, and where messages go, by topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Every topic that goes somewhere, by its name, or with all others below a name by a [`TopicPattern`].
    pub topics: BTreeMap<String, TopicConfig>,
    /// What is said of sagas.
    pub sagas: SagaEvents,
}

/// What is said of sagas, to the topic `backstitch.sagas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SagaEvents {
    /// The events that are published, such as `saga.*`.
    pub events: Vec<String>,
}

/// Where messages of one topic go, or of all that a pattern means, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// The way out, with settings of its own.
    pub adapter: Adapter,
    /// How hard it is tried.
    pub pace: Pace,
}

/// How hard it is tried to send messages of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// How long one send may take.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// Messages of one topic on their way at once.
    pub concurrency: usize,
    /// Sends of one message before it is given up.
    pub max_attempts: u32,
    /// The waits between them; the last one serves for all that follow.
    #[serde(deserialize_with = "durations")]
    pub backoff: Vec<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        // The engine knows what is usual.
        let usual = Route::to(Arc::new(LogSink));
        Self {
            timeout: DEFAULT_TIMEOUT,
            concurrency: usual.concurrency,
            max_attempts: usual.max_attempts.unwrap_or(MOST_ATTEMPTS),
            backoff: usual.backoff,
        }
    }
}

/// Settings of topics that cannot work, all of them at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings of the outbox cannot work: {}", mistakes.join("; "))]
pub struct BadConfig {
    /// What is wrong and what to do, each with its place.
    pub mistakes: Vec<String>,
}

impl BadConfig {
    fn none_of(mistakes: Vec<String>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self { mistakes }) }
    }
}

impl Config {
    /// Looks for mistakes, without trying any adapter.
    ///
    /// # Errors
    /// Every mistake there is, in all topics.
    pub fn check(&self) -> Result<(), BadConfig> {
        let topics = self.topics.iter().flat_map(|(name, topic)| topic.mistakes(name));
        let unknown = self.announced().err().into_iter().flat_map(|bad| bad.mistakes);
        BadConfig::none_of(topics.chain(unknown).chain(self.at_odds()).collect())
    }

    /// Which events of sagas are published.
    ///
    /// # Errors
    /// When no event is called so.
    pub fn announced(&self) -> Result<Announced, BadConfig> {
        Announced::matching(&self.sagas.events)
            .map_err(|unknown| BadConfig { mistakes: vec![format!("outbox.sagas.events: {unknown}")] })
    }

    /// Events that go nowhere, or somewhere to go without events.
    fn at_odds(&self) -> Option<String> {
        match (self.sagas.events.is_empty(), self.topics.contains_key(SAGAS)) {
            (true, true) => Some(format!(
                "{}: nothing is published to it: list events under outbox.sagas.events, or leave it out",
                place(SAGAS)
            )),
            (false, false) if !self.topics.is_empty() => Some(format!(
                "outbox.sagas.events: the topic `{SAGAS}` goes nowhere: add [outbox.topics.\"{SAGAS}\"]"
            )),
            _ => None,
        }
    }
}

impl TopicConfig {
    /// A topic that leaves by this adapter, at the usual pace.
    #[must_use]
    pub fn by(adapter: impl Into<Adapter>) -> Self {
        Self { adapter: adapter.into(), pace: Pace::default() }
    }

    /// Looks for mistakes in the settings of the topic with this name, without trying its adapter.
    ///
    /// # Errors
    /// Every mistake there is.
    pub fn check(&self, name: &str) -> Result<(), BadConfig> {
        BadConfig::none_of(self.mistakes(name))
    }

    /// What sends the messages of the topic with this name. Within a Tokio runtime an adapter may begin to connect at once;
    /// a receiver that is down is no mistake.
    ///
    /// # Errors
    /// Every mistake there is, also in the files that the settings name.
    pub fn sink(&self, name: &str, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Sink>, BadConfig> {
        self.check(name)?;
        let place = place(name);
        let (timeout, retry_span) = (self.pace.timeout, self.pace.retry_span());
        let topic = Topic { name, pattern: pattern(name), timeout, clock: clock.clone(), retry_span };
        self.adapter
            .sink(&topic)
            .map_err(|mistake| BadConfig { mistakes: vec![format!("{place}.{mistake}")] })
    }

    /// How the engine sends the messages of the topic with this name.
    ///
    /// # Errors
    /// As [`TopicConfig::sink`].
    pub fn route(&self, name: &str, clock: &Arc<dyn Clock>) -> Result<Route, BadConfig> {
        Ok(Route {
            sink: self.sink(name, clock)?,
            concurrency: self.pace.concurrency,
            max_attempts: Some(self.pace.max_attempts),
            backoff: self.pace.backoff.clone(),
            timeout: Some(self.pace.timeout + LAST_WORD),
        })
    }

    fn mistakes(&self, name: &str) -> Vec<String> {
        let place = place(name);
        let mut mistakes: Vec<String> =
            misnamed(name).map(|why| format!("{place}: {why}")).into_iter().collect();
        mistakes.extend(self.adapter.mistakes(&place, pattern(name).as_ref()));
        mistakes.extend(self.pace.mistakes(&place));
        mistakes
    }
}

impl Pace {
    /// The longest time between the first and the last send of one message: every wait, and every send taking all the time
    /// it has. A receiver that forgets a key sooner may take a repeated message for a new one.
    #[must_use]
    pub fn retry_span(&self) -> Duration {
        let backoff = Retry::after_each(self.backoff.clone());
        let waits = (1..self.max_attempts).map(|failures| backoff.wait(failures, 0));
        let sends = self.timeout.saturating_mul(self.max_attempts);
        waits.fold(sends, Duration::saturating_add)
    }

    fn mistakes(&self, place: &str) -> Vec<String> {
        let mut mistakes: Vec<String> = late(&format!("{place}.timeout"), self.timeout).into_iter().collect();
        if !(1..=MOST_AT_ONCE).contains(&self.concurrency) {
            mistakes.push(format!("{place}.concurrency must be 1 to {MOST_AT_ONCE}"));
        }
        if !(1..=MOST_ATTEMPTS).contains(&self.max_attempts) {
            mistakes.push(format!("{place}.max_attempts must be 1 to {MOST_ATTEMPTS}"));
        }
        if !(1..=MOST_WAITS).contains(&self.backoff.len()) {
            mistakes.push(format!(
                "{place}.backoff must list 1 to {MOST_WAITS} waits: the last one serves for all that follow"
            ));
        }
        if self.backoff.iter().any(|wait| *wait > LONGEST_WAIT) {
            mistakes.push(format!("{place}.backoff: no wait may be longer than a day"));
        }
        mistakes
    }
}

fn place(name: &str) -> String {
    format!("outbox.topics.{}", quoted(name))
}

/// For which topics a setting of this name is, if not for one.
fn pattern(name: &str) -> Option<TopicPattern> {
    TopicPattern::read(name).ok().flatten()
}

fn misnamed(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Some(format!("a topic's name must have 1 to {LONGEST_NAME} bytes"));
    }
    if name.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return Some("a topic's name has no blanks and no control characters: write a `-`".to_owned());
    }
    if is_reserved(name) && name != SAGAS {
        return Some(format!("names that begin with `{RESERVED}` belong to the engine: choose another"));
    }
    TopicPattern::read(name).err().map(|why| why.to_string())
}

/// An adapter's settings stand beside the others, and which ones there may be depends on the adapter: so the names are
/// looked at before the values.
impl<'de> Deserialize<'de> for TopicConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut own = Map::<String, Value>::deserialize(deserializer)?;
        let pace = ["timeout", "concurrency", "max_attempts", "backoff"];
        let pace: Map<String, Value> = pace.iter().filter_map(|name| own.remove_entry(*name)).collect();
        let adapter = match own.remove("adapter") {
            Some(Value::String(name)) => Adapter::read(&name, own),
            Some(_) => Err(format!("adapter: write one of {}", Adapter::names())),
            None => Err(format!("adapter is missing: write one of {}", Adapter::names())),
        };
        match (adapter, read(pace)) {
            (Ok(adapter), Ok(pace)) => Ok(Self { adapter, pace }),
            (Err(mistake), Ok(_)) | (Ok(_), Err(mistake)) => Err(D::Error::custom(mistake)),
            (Err(one), Err(other)) => Err(D::Error::custom(format!("{one}; {other}"))),
        }
    }
}

/// Settings as they were written, or what is wrong with them and where.
pub(super) fn read<T: DeserializeOwned>(written: Map<String, Value>) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(written)).map_err(|wrong| {
        let place = wrong.path().to_string();
        let why = wrong.into_inner();
        // What is missing or unknown is named by the message itself.
        if place == "." || why.to_string().contains(&format!("`{place}`")) {
            why.to_string()
        } else {
            format!("{place}: {why}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(backstitch::clock::SystemClock)
    }

    fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn topic(toml: &str) -> Result<TopicConfig, String> {
        toml::from_str(toml).map_err(|why: toml::de::Error| why.message().to_owned())
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let log = topic("adapter = 'log'").unwrap();
        assert_eq!(log, TopicConfig::by(super::super::Log {}));
        assert_eq!((log.pace.concurrency, log.pace.max_attempts), (4, 6));
        assert_eq!(log.pace.backoff, [5, 10, 20, 40, 80, 160].map(secs));
    }

    #[test]
    fn everything_can_be_set() {
        let config: Config = toml::from_str(
            r#"
            [topics.orders]
            adapter = "http"
            url = "http://10.0.0.7:8080/orders"
            headers = { Authorization = "Bearer hush" }
            timeout = "5s"
            concurrency = 16
            max_attempts = 3
            backoff = ["1s", "1m"]
            [topics.shipments]
            adapter = "nats"
            url = "nats://127.0.0.1:4222,nats://127.0.0.1:4223"
            subject = "shipments"
            stream = "SHIPMENTS"
            user = "backstitch"
            password = "hush"
            "#,
        )
        .unwrap();
        config.check().unwrap();
        let orders = &config.topics["orders"].pace;
        assert_eq!((orders.timeout, orders.concurrency, orders.max_attempts), (secs(5), 16, 3));
        assert_eq!(orders.retry_span(), secs(1 + 60 + 3 * 5));
        let route = config.topics["orders"].route("orders", &clock()).unwrap();
        assert_eq!((route.sink.name(), route.concurrency, route.max_attempts), ("http", 16, Some(3)));
        assert_eq!(route.backoff, [secs(1), secs(60)]);
        assert!(route.timeout > Some(secs(5)), "the adapter has the last word");
        assert!(!format!("{config:?}").contains("hush"), "secrets are not shown");
    }

    #[test]
    fn a_setting_that_does_not_exist_or_has_another_type_is_refused() {
        for (toml, complaint) in [
            ("adapter = 'nats'\nurl = 'nats://a'\nsubject = 'a'", "missing field `stream`"),
            ("adapter = 'log'\nurl = 'http://a'", "unknown field `url`"),
            ("adapter = 'http'\nurl = 'http://a'\nsubject = 'a'", "unknown field `subject`"),
            ("adapter = 'http'\nurl = 7", "url: invalid type: integer `7`"),
            ("adapter = 'htpp'\nurl = 'http://a'", "did you mean `http`?"),
            ("adapter = 'kafka'", "one of http, nats, log"),
            ("adapter = 7", "adapter: write one of http, nats, log"),
            ("url = 'http://a'", "adapter is missing"),
            ("adapter = 'log'\ntimeout = 10", "timeout: invalid type"),
            ("adapter = 'log'\nbackoff = ['5s', 'soon']", "`soon` is not a duration"),
            ("adapter = 'log'\nconcurrency = -1", "concurrency: invalid value"),
        ] {
            let refused = topic(toml).unwrap_err();
            assert!(refused.contains(complaint), "{toml}: {refused}");
        }
        let both = topic("adapter = 'log'\nurl = 'a'\nmax_attempts = 'six'").unwrap_err();
        assert!(both.contains("`url`") && both.contains("max_attempts"), "{both}");
    }

    #[test]
    fn the_engines_own_topics_go_where_the_engine_sends_them() {
        let log = TopicConfig::by(super::super::Log {});
        log.check("backstitches").unwrap();
        for name in ["backstitch.alerts", "backstitch.", "backstitch.saga", "backstitch.*", "", "a b", "a\nb"]
        {
            assert!(log.check(name).is_err(), "{name:?}");
        }
    }

    fn config(toml: &str) -> Config {
        toml::from_str(toml).unwrap()
    }

    fn complaint(toml: &str) -> String {
        config(toml).check().unwrap_err().to_string()
    }

    #[test]
    fn events_of_sagas_and_their_topic_go_together() {
        let events = "[sagas]\nevents = ['saga.*', 'step.failed']\n";
        let topic = "[topics.\"backstitch.sagas\"]\nadapter = 'log'\n";
        let other = "[topics.orders]\nadapter = 'log'\n";
        for good in ["", events, other, &[events, topic].concat(), &[events, topic, other].concat()] {
            config(good).check().unwrap();
        }
        let announced = config(events).announced().unwrap();
        assert!(announced.includes("saga.failed") && announced.includes("step.failed"));
        assert!(!announced.includes("step.started"));
        assert!(config("").announced().unwrap().is_empty());
        let nothing = complaint(topic);
        assert!(nothing.contains("list events under outbox.sagas.events"), "{nothing}");
        let nowhere = complaint(&[events, other].concat());
        assert!(nowhere.contains("add [outbox.topics.\"backstitch.sagas\"]"), "{nowhere}");
    }

    #[test]
    fn an_event_that_does_not_exist_is_refused() {
        let refused = complaint("[sagas]\nevents = ['saga.finished']");
        assert!(refused.contains("outbox.sagas.events: no event is called `saga.finished`"), "{refused}");
    }

    #[test]
    fn a_span_has_every_wait_and_every_send() {
        let span = |max_attempts, waits: &[u64]| {
            let backoff = waits.iter().copied().map(secs).collect();
            Pace { timeout: secs(10), max_attempts, backoff, ..Pace::default() }.retry_span()
        };
        assert_eq!(span(1, &[5, 10]), secs(10));
        assert_eq!(span(3, &[5, 10]), secs(15 + 30));
        assert_eq!(span(5, &[5, 10]), secs(35 + 50), "the last wait serves for all that follow");
        assert_eq!(Pace::default().retry_span(), secs(155 + 60));
    }
}
