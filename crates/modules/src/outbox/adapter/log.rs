//! The log: for development, and for topics that nobody reads yet.

use std::sync::Arc;

use backstitch::outbox::TopicPattern;
use backstitch::sink::{LogSink, Sink};
use serde::Deserialize;

use super::{Settings, Topic};

/// The log, about which nothing can be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {}

impl Settings for Log {
    fn mistakes(&self, _place: &str, _pattern: Option<&TopicPattern>) -> Vec<String> {
        Vec::new()
    }

    fn sink(&self, _topic: &Topic<'_>) -> Result<Arc<dyn Sink>, String> {
        Ok(Arc::new(LogSink))
    }
}
