//! How long what is over is kept, and where it goes from there.

use std::time::Duration;

use backstitch::store::outbox::ALERTS;
use backstitch::{outbox, retention};
use backstitch_api::validate::shown_duration;
use backstitch_modules::{lifecycles, webhooks};
use serde::{Deserialize, Serialize};

use super::text;

/// How long what is over is kept before it is removed: for ever, unless told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// The folder where everything that is removed is written to before; none when empty.
    #[serde(with = "text::optional")]
    pub export: Option<String>,
    /// Sagas whose every step succeeded, with their logs.
    #[serde(with = "text::age")]
    pub sagas_succeeded: Option<Duration>,
    /// Sagas that were rolled back, with their logs.
    #[serde(with = "text::age")]
    pub sagas_compensated: Option<Duration>,
    /// Sagas whose rollback failed, with their logs: from then on nobody can resolve them.
    #[serde(with = "text::age")]
    pub sagas_failed: Option<Duration>,
    /// Lifecycles that have ended, with their logs.
    #[serde(with = "text::age")]
    pub lifecycles: Option<Duration>,
    /// Requests for lifecycles that nobody could make sense of.
    #[serde(with = "text::age")]
    pub lifecycle_dead_letters: Option<Duration>,
    /// Messages of the outbox that the other side has.
    #[serde(with = "text::age")]
    pub outbox_sent: Option<Duration>,
    /// Messages of the outbox that were given up.
    #[serde(with = "text::age")]
    pub outbox_aborted: Option<Duration>,
    /// Alerts that somebody has acknowledged, with who was told of them; the others stay.
    #[serde(with = "text::age")]
    pub alerts: Option<Duration>,
    /// Keys of messages, where these go: for so long a repeated request is known.
    #[serde(with = "text::age")]
    pub idempotency: Option<Duration>,
    /// Webhooks that arrived, with their attempts.
    #[serde(with = "text::age")]
    pub deliveries: Option<Duration>,
    /// Webhooks that were given up, with their attempts.
    #[serde(with = "text::age")]
    pub dead_letters: Option<Duration>,
    /// Events, which stay at least as long as their deliveries: for so long a repeated one is known.
    #[serde(with = "text::age")]
    pub events: Option<Duration>,
}

impl Retention {
    /// What the engine is told. Who keeps what is removed comes with the server.
    #[must_use]
    pub fn of_engine(&self) -> retention::Retention {
        retention::Retention {
            sagas: retention::SagaAges {
                succeeded: self.sagas_succeeded,
                compensated: self.sagas_compensated,
                failed: self.sagas_failed,
            },
            messages: outbox::Retention {
                sent: self.outbox_sent,
                aborted: self.outbox_aborted,
                keys: self.idempotency,
                besides: Some(ALERTS),
            },
            archive: None,
        }
    }

    /// What webhooks are told.
    #[must_use]
    pub fn of_webhooks(&self) -> webhooks::Ages {
        webhooks::Ages { completed: self.deliveries, dead_lettered: self.dead_letters, events: self.events }
    }

    /// What lifecycles are told.
    #[must_use]
    pub fn of_lifecycles(&self) -> lifecycles::Ages {
        lifecycles::Ages { ended: self.lifecycles, dead_letters: self.lifecycle_dead_letters }
    }

    fn ages(&self) -> [(&'static str, Option<Duration>); 12] {
        [
            ("sagas_succeeded", self.sagas_succeeded),
            ("sagas_compensated", self.sagas_compensated),
            ("sagas_failed", self.sagas_failed),
            ("lifecycles", self.lifecycles),
            ("lifecycle_dead_letters", self.lifecycle_dead_letters),
            ("outbox_sent", self.outbox_sent),
            ("outbox_aborted", self.outbox_aborted),
            ("alerts", self.alerts),
            ("idempotency", self.idempotency),
            ("deliveries", self.deliveries),
            ("dead_letters", self.dead_letters),
            ("events", self.events),
        ]
    }

    /// Whether anything is ever removed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.ages().iter().any(|(_, age)| age.is_some())
    }

    /// A key goes after its message, so it can only go where that does.
    fn mistake_about_keys(&self) -> Option<String> {
        let keys = self.idempotency?;
        let (Some(sent), Some(aborted)) = (self.outbox_sent, self.outbox_aborted) else {
            let needed = "retention.idempotency removes keys of messages that are gone, and some never go: set \
                 retention.outbox_sent and retention.outbox_aborted too, or write \"off\" to keep all keys";
            return Some(needed.to_owned());
        };
        let longest = sent.max(aborted);
        (keys < longest).then(|| {
            format!(
                "retention.idempotency must not be shorter than the messages whose keys it keeps: at least {}",
                shown_duration(longest)
            )
        })
    }

    pub(super) fn mistakes(&self) -> Vec<String> {
        let ages = self.ages();
        let empty = ages.iter().filter(|(_, age)| *age == Some(Duration::ZERO));
        let mut mistakes: Vec<String> = empty
            .map(|(name, _)| {
                format!("retention.{name} must be longer than nothing: write \"off\" to keep everything")
            })
            .collect();
        mistakes.extend(self.mistake_about_keys());
        if self.export.is_some() && !self.is_on() {
            mistakes.push(
                "retention.export says where to what is removed, but nothing is: set an age, such as \
                 retention.sagas_succeeded = \"90days\""
                    .to_owned(),
            );
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Option<Duration> = Some(Duration::from_secs(3600));

    #[test]
    fn nothing_is_removed_unless_somebody_says_so() {
        let nothing = Retention::default();
        assert!(!nothing.is_on() && nothing.mistakes().is_empty());
        assert_eq!(nothing.of_webhooks(), webhooks::Ages::default());
        assert_eq!(nothing.of_lifecycles(), lifecycles::Ages::default());
        let engine = nothing.of_engine();
        assert_eq!(engine.sagas, retention::SagaAges::default());
        let messages = outbox::Retention { besides: Some(ALERTS), ..outbox::Retention::default() };
        assert_eq!(engine.messages, messages, "alerts have an age of their own");
        let written = toml::Value::try_from(&nothing).unwrap();
        let written = written.as_table().unwrap();
        let off = written.iter().filter(|(_, value)| value.as_str() == Some("off")).count();
        assert_eq!(off, nothing.ages().len(), "every age can be read where it is off: {written}");
    }

    #[test]
    fn a_key_is_kept_at_least_as_long_as_its_message() {
        let month = Some(Duration::from_secs(30 * 24 * 3600));
        let short =
            Retention { idempotency: HOUR, outbox_sent: HOUR, outbox_aborted: month, ..Retention::default() };
        assert!(short.mistakes()[0].contains("at least 30days"), "{:?}", short.mistakes());
        let equal = Retention { idempotency: month, ..short.clone() };
        assert!(equal.mistakes().is_empty());
        let for_ever = Retention { idempotency: None, ..short };
        assert!(for_ever.mistakes().is_empty());
    }

    #[test]
    fn keys_go_only_where_messages_of_both_kinds_do() {
        for (outbox_sent, outbox_aborted) in [(None, None), (HOUR, None), (None, HOUR)] {
            let only_keys =
                Retention { idempotency: HOUR, outbox_sent, outbox_aborted, ..Retention::default() };
            let told = only_keys.mistakes();
            assert!(
                told[0].contains("set retention.outbox_sent and retention.outbox_aborted too"),
                "{told:?}"
            );
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let none = Some(Duration::ZERO);
        let bad = Retention { sagas_failed: none, events: none, ..Retention::default() };
        let told = bad.mistakes();
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("retention.sagas_failed must be longer than nothing"), "{told:?}");
        assert!(told[1].starts_with("retention.events must be longer than nothing"), "{told:?}");
        let idle = Retention { export: Some("/var/backstitch".to_owned()), ..Retention::default() };
        assert!(idle.mistakes()[0].contains("set an age"), "{:?}", idle.mistakes());
    }
}
