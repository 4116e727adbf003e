//! How webhooks are sent, and where they may go.

use std::time::Duration;

use backstitch::delivery::limiter::LimiterSettings;
use backstitch_modules::webhooks::{RetryDefaults, Terms, egress};
use serde::{Deserialize, Serialize};

use super::text;

/// How webhooks are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhooks {
    /// Requests of this process at once, to all endpoints together; 0 leaves all of them to outside workers.
    pub concurrency: usize,
    /// Attempts of a delivery in all, for subscriptions that do not say.
    pub max_retry_limit: u32,
    /// The wait after the first attempt, which doubles with each that follows, for subscriptions that do not say.
    #[serde(with = "text::duration")]
    pub base_delay: Duration,
    /// The longest wait between attempts, for subscriptions that do not say.
    #[serde(with = "text::duration")]
    pub max_delay: Duration,
}

impl Default for Webhooks {
    fn default() -> Self {
        let RetryDefaults { max_retry_limit, base_delay, max_delay } = RetryDefaults::default();
        Self { concurrency: LimiterSettings::default().places, max_retry_limit, base_delay, max_delay }
    }
}

impl Webhooks {
    /// Retries of subscriptions that do not say.
    pub(crate) fn retry_defaults(&self) -> RetryDefaults {
        let Self { max_retry_limit, base_delay, max_delay, .. } = *self;
        RetryDefaults { max_retry_limit, base_delay, max_delay }
    }

    /// What a subscription has that does not say anything else.
    pub(crate) fn usual_terms(&self) -> Terms {
        let Self { max_retry_limit, base_delay, max_delay, .. } = *self;
        Terms { max_retry_limit, base_delay, max_delay, ..Terms::to("", Vec::new()) }
    }

    /// Everything that could not work.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let somewhere = Terms {
            url: "https://example.com/".to_owned(),
            event_types: vec!["*".to_owned()],
            ..self.usual_terms()
        };
        let mistakes = somewhere.check().err().map(|bad| bad.0).unwrap_or_default();
        mistakes.iter().map(|mistake| format!("webhooks.{} {}", mistake.place, mistake.message)).collect()
    }
}

/// Where webhooks may go, beside the open internet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Ranges of addresses that are closed otherwise.
    pub allow: Vec<String>,
}

impl Egress {
    /// Everything that could not work.
    pub(super) fn mistakes(&self) -> Vec<String> {
        egress::Egress::allowing(&self.allow).err().map(|bad| bad.mistakes).unwrap_or_default()
    }
}
