//! How long what is over is kept.

use std::time::Duration;

use backstitch::outbox;
use backstitch_modules::{shown_duration, webhooks};
use serde::{Deserialize, Serialize};

use super::text;

/// How long what is over is kept before it is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Messages of the outbox that the other side has.
    #[serde(with = "text::duration")]
    pub outbox_sent: Duration,
    /// Messages of the outbox that were given up.
    #[serde(with = "text::duration")]
    pub outbox_aborted: Duration,
    /// Keys of messages: for so long a repeated request is known.
    #[serde(with = "text::duration")]
    pub idempotency: Duration,
    /// Webhooks that arrived, with their attempts.
    #[serde(with = "text::duration")]
    pub deliveries: Duration,
    /// Webhooks that were given up, with their attempts.
    #[serde(with = "text::duration")]
    pub dead_letters: Duration,
    /// Events, which stay at least as long as their deliveries: for so long a repeated one is known.
    #[serde(with = "text::duration")]
    pub events: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let outbox::Retention { sent, aborted, keys } = outbox::Retention::default();
        let webhooks::Ages { completed, dead_lettered, events } = webhooks::Ages::default();
        Self {
            outbox_sent: sent,
            outbox_aborted: aborted,
            idempotency: keys,
            deliveries: completed,
            dead_letters: dead_lettered,
            events,
        }
    }
}

impl Retention {
    /// What the engine is told.
    #[must_use]
    pub fn of_outbox(&self) -> outbox::Retention {
        outbox::Retention { sent: self.outbox_sent, aborted: self.outbox_aborted, keys: self.idempotency }
    }

    /// What webhooks are told.
    #[must_use]
    pub fn of_webhooks(&self) -> webhooks::Ages {
        webhooks::Ages { completed: self.deliveries, dead_lettered: self.dead_letters, events: self.events }
    }

    pub(super) fn mistakes(&self) -> Vec<String> {
        let ages = [
            ("outbox_sent", self.outbox_sent),
            ("outbox_aborted", self.outbox_aborted),
            ("idempotency", self.idempotency),
            ("deliveries", self.deliveries),
            ("dead_letters", self.dead_letters),
            ("events", self.events),
        ];
        let empty = ages.iter().filter(|(_, age)| age.is_zero());
        let mut mistakes: Vec<String> =
            empty.map(|(name, _)| format!("retention.{name} must be longer than nothing")).collect();
        let longest = self.outbox_sent.max(self.outbox_aborted);
        if self.idempotency < longest {
            mistakes.push(format!(
                "retention.idempotency must not be shorter than the messages whose keys it keeps: at least {}",
                shown_duration(longest)
            ));
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_at_least_as_long_as_its_message() {
        let hour = Duration::from_secs(3600);
        assert!(Retention::default().mistakes().is_empty());
        let short = Retention { idempotency: hour, ..Retention::default() };
        assert!(short.mistakes()[0].contains("at least 30days"), "{:?}", short.mistakes());
        let long = Retention { outbox_sent: 24 * 31 * hour, ..short };
        assert!(long.mistakes()[0].ends_with("at least 31days"), "{:?}", long.mistakes());
        let none = Retention { outbox_sent: Duration::ZERO, ..Retention::default() };
        assert_eq!(none.mistakes(), ["retention.outbox_sent must be longer than nothing"]);
        let all =
            Retention { outbox_sent: hour, outbox_aborted: hour, idempotency: hour, ..Retention::default() };
        assert!(all.mistakes().is_empty());
    }
}
