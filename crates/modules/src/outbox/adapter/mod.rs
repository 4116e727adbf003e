//! The ways out.
//!
//! A way out is a file here with its settings, what can be wrong with them, and the sink that they make; and a line in the
//! list below.

mod http;
mod log;
mod nats;

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::Clock;
use backstitch::outbox::TopicPattern;
use backstitch::sink::Sink;
use backstitch_api::validate::{nearest, quoted};
use serde_json::{Map, Value};

use super::config::read;

pub use http::Http;
pub use log::Log;
pub use nats::Nats;

/// The settings of one way out.
trait Settings {
    /// What is wrong with them and what to do, each with its place. Where they are for several topics, a pattern says for
    /// which.
    fn mistakes(&self, place: &str, pattern: Option<&TopicPattern>) -> Vec<String>;

    /// What sends messages this way; or the setting that keeps it from that, and why.
    fn sink(&self, topic: &Topic<'_>) -> Result<Arc<dyn Sink>, String>;
}

/// What a way out is told about the topic that takes it, or the topics.
pub(super) struct Topic<'a> {
    pub(super) name: &'a str,
    /// For which topics the settings are, if not for the one of that name.
    pub(super) pattern: Option<TopicPattern>,
    /// How long one send may take.
    pub(super) timeout: Duration,
    /// By which it tells how far off a time is.
    pub(super) clock: Arc<dyn Clock>,
    /// How long after its first send a message may be sent again.
    pub(super) retry_span: Duration,
}

macro_rules! adapters {
    ($($(#[$meaning:meta])* $name:literal => $settings:ident,)*) => {
        /// The way out that a topic takes.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Adapter {
            $($(#[$meaning])* $settings($settings),)*
        }

        impl Adapter {
            const NAMES: &[&str] = &[$($name),*];

            /// Reads the settings of the adapter with this name.
            pub(super) fn read(name: &str, written: Map<String, Value>) -> Result<Self, String> {
                match name {
                    $($name => read(written).map(Self::$settings),)*
                    unknown => Err(unknown_adapter(unknown)),
                }
            }

            fn settings(&self) -> &dyn Settings {
                match self {
                    $(Self::$settings(settings) => settings,)*
                }
            }
        }

        $(impl From<$settings> for Adapter {
            fn from(settings: $settings) -> Self {
                Self::$settings(settings)
            }
        })*
    };
}

adapters! {
    /// A POST request.
    "http" => Http,
    /// A stream of NATS `JetStream`.
    "nats" => Nats,
    /// The log.
    "log" => Log,
}

impl Adapter {
    pub(super) fn names() -> String {
        Self::NAMES.join(", ")
    }

    pub(super) fn mistakes(&self, place: &str, pattern: Option<&TopicPattern>) -> Vec<String> {
        self.settings().mistakes(place, pattern)
    }

    pub(super) fn sink(&self, topic: &Topic<'_>) -> Result<Arc<dyn Sink>, String> {
        self.settings().sink(topic)
    }
}

fn unknown_adapter(written: &str) -> String {
    let meant =
        nearest(written, Adapter::NAMES.iter().copied()).map(|name| format!(": did you mean `{name}`?"));
    format!("adapter: `{}` is not one of {}{}", quoted(written), Adapter::names(), meant.unwrap_or_default())
}
