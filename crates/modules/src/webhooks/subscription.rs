//! Who wants to hear of which events, and how.

use std::time::Duration;

use backstitch::{Problem, Timestamp, store};
use backstitch_api::validate::{AttemptTimeout, Delay, shown_duration};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{BadTerms, Error};
use super::event_type::check_patterns;
use super::sealed_headers::SealedHeaders;
use super::subscription_input::{Concurrency, RateLimit, RetryLimit};
use crate::question::{Record, Value};

/// What a subscription asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Where to.
    pub url: String,
    /// Which events: types, `order.*`, or `*`.
    pub event_types: Vec<String>,
    /// Attempts in all.
    pub max_retry_limit: u32,
    /// The wait after the first failure; it doubles with each further one.
    pub base_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
    /// How long a request may take.
    pub timeout: Duration,
    /// Requests at once.
    pub max_concurrency: u32,
    /// Requests a second; without it there is no limit.
    pub rate_limit: Option<u32>,
    /// Which of these follow the configured default instead of being the subscription's own.
    pub defaulted: Defaulted,
}

/// Which retry settings of a subscription follow the configured default. The table keeps them as null, so a change of the
/// configuration changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaulted {
    /// `max_retry_limit`.
    pub max_retry_limit: bool,
    /// `base_delay`.
    pub base_delay: bool,
    /// `max_delay`.
    pub max_delay: bool,
}

impl Defaulted {
    /// All of them.
    pub const ALL: Self = Self { max_retry_limit: true, base_delay: true, max_delay: true };

    /// The fields that do.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("max_retry_limit", self.max_retry_limit),
            ("base_delay", self.base_delay),
            ("max_delay", self.max_delay),
        ];
        fields.into_iter().filter(|(_, defaulted)| *defaulted).map(|(field, _)| field)
    }
}

/// How often deliveries are retried for subscriptions that do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryDefaults {
    /// Attempts in all.
    pub max_retry_limit: u32,
    /// The wait after the first failure.
    pub base_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
}

impl Default for RetryDefaults {
    fn default() -> Self {
        Self { max_retry_limit: 8, base_delay: Duration::from_secs(5), max_delay: Duration::from_secs(3600) }
    }
}

impl Terms {
    /// The usual ones, as the subscription's own.
    #[must_use]
    pub fn to(url: impl Into<String>, event_types: Vec<String>) -> Self {
        let RetryDefaults { max_retry_limit, base_delay, max_delay } = RetryDefaults::default();
        Self {
            url: url.into(),
            event_types,
            max_retry_limit,
            base_delay,
            max_delay,
            defaulted: Defaulted::default(),
            timeout: Duration::from_secs(15),
            max_concurrency: 16,
            rate_limit: None,
        }
    }

    /// Checks what can be checked without the network: what may be called is the sender's to say.
    ///
    /// # Errors
    /// Everything that cannot be, and what to do.
    pub fn check(&self) -> Result<(), BadTerms> {
        let mut problems = Vec::new();
        let mut wrong =
            |place: &str, message: String| problems.push(Problem { place: place.to_owned(), message });
        if let Err(why) = check_patterns(&self.event_types) {
            wrong("event_types", why);
        }
        if self.url.is_empty() || self.url.contains('\0') {
            wrong("url", "is empty or holds a zero byte".to_owned());
        }
        let checks = [
            ("max_retry_limit", RetryLimit::check(self.max_retry_limit.into())),
            ("max_concurrency", Concurrency::check(self.max_concurrency.into())),
            ("rate_limit", self.rate_limit.map_or(Ok(()), |limit| RateLimit::check(limit.into()))),
            ("base_delay", Delay::check(self.base_delay)),
            ("max_delay", Delay::check(self.max_delay)),
            ("timeout", AttemptTimeout::check(self.timeout)),
        ];
        for (field, checked) in checks {
            if let Err(why) = checked {
                wrong(field, why);
            }
        }
        if self.max_delay < self.base_delay {
            let [longest, base] = [self.max_delay, self.base_delay].map(shown_duration);
            wrong(
                "max_delay",
                format!("is {longest}, shorter than base_delay, {base}: the longest wait is the longest"),
            );
        }
        if problems.is_empty() { Ok(()) } else { Err(BadTerms(problems)) }
    }

    /// As the table has them with these headers, in the order of its columns.
    pub(super) fn columns(&self, headers: &SealedHeaders) -> Result<Vec<Value>, Error> {
        self.check()?;
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let own = |is_own: bool, value: i64| Value::from(is_own.then_some(value));
        Ok(vec![
            self.url.clone().into(),
            written(&self.event_types)?.into(),
            headers.column()?.into(),
            own(!self.defaulted.max_retry_limit, self.max_retry_limit.into()),
            own(!self.defaulted.base_delay, millis(self.base_delay)),
            own(!self.defaulted.max_delay, millis(self.max_delay)),
            millis(self.timeout).into(),
            self.max_concurrency.into(),
            self.rate_limit.map(i64::from).into(),
        ])
    }
}

/// What is secret of a new subscription, encrypted by whoever knows how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// What requests are signed with.
    pub secret: Vec<u8>,
    /// Sent with each request.
    pub headers: SealedHeaders,
}

/// What requests are signed with, encrypted by whoever knows how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// The newest.
    pub current: Vec<u8>,
    /// The one before, and until when it is live too.
    pub previous: Option<(Vec<u8>, Timestamp)>,
}

impl Secrets {
    /// From this column on.
    pub(super) fn read(row: &Record, first: usize) -> Result<Self, store::Error> {
        Ok(Self {
            current: row.optional_bytes(first)?.unwrap_or_default(),
            previous: row.optional_bytes(first + 1)?.zip(row.optional_time(first + 2)?),
        })
    }
}

/// Why deliveries to a subscription wait, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// A subscription as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its number, and that of its lane.
    pub id: i64,
    /// What it asks for.
    pub terms: Terms,
    /// Sent with each request.
    pub headers: SealedHeaders,
    /// What its requests are signed with.
    pub secrets: Secrets,
    /// Nothing while it is enabled.
    pub disabled: Option<Disabled>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Subscription {
    /// With what the table leaves to the defaults taken from these.
    pub(super) fn read(row: &Record, defaults: RetryDefaults) -> Result<Self, store::Error> {
        let own_millis = |column| {
            let millis = row.optional_integer(column)?;
            Ok::<_, store::Error>(millis.map(|millis| Duration::from_millis(millis.unsigned_abs())))
        };
        let millis =
            |column| Ok::<_, store::Error>(Duration::from_millis(row.integer(column)?.unsigned_abs()));
        let limit = row.optional_integer(4)?.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let (base_delay, max_delay) = (own_millis(5)?, own_millis(6)?);
        let reason = row.optional_text(14)?;
        Ok(Self {
            id: row.integer(0)?,
            terms: Terms {
                url: row.text(1)?,
                event_types: readable(&row.text(2)?)?,
                max_retry_limit: limit.unwrap_or(defaults.max_retry_limit),
                base_delay: base_delay.unwrap_or(defaults.base_delay),
                max_delay: max_delay.unwrap_or(defaults.max_delay),
                defaulted: Defaulted {
                    max_retry_limit: limit.is_none(),
                    base_delay: base_delay.is_none(),
                    max_delay: max_delay.is_none(),
                },
                timeout: millis(7)?,
                max_concurrency: row.count(8)?,
                rate_limit: row.optional_integer(9)?.and_then(|limit| u32::try_from(limit).ok()),
            },
            headers: SealedHeaders::read(&row.text(3)?),
            secrets: Secrets::read(row, 10)?,
            disabled: row.optional_time(13)?.zip(reason).map(|(at, reason)| Disabled { at, reason }),
            created_at: row.time(15)?,
            updated_at: row.time(16)?,
        })
    }
}

fn readable<T: DeserializeOwned>(text: &str) -> Result<T, store::Error> {
    serde_json::from_str(text)
        .map_err(|why| store::Error::Refused(format!("a subscription's row cannot be read: {why}")))
}

fn written<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|why| Error::invalid("subscription", why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_cannot_be_is_told_in_the_words_it_is_written_in() {
        let days = |count: u64| Duration::from_secs(count * 24 * 3600);
        let usual = Terms::to("https://a.example/", vec!["*".to_owned()]);
        let terms = Terms { max_delay: days(31), base_delay: days(45), timeout: days(1), ..usual };
        let BadTerms(wrong) = terms.check().unwrap_err();
        let told: Vec<String> = wrong.into_iter().map(|it| format!("{} {}", it.place, it.message)).collect();
        assert_eq!(
            told,
            [
                "base_delay is 45days: use 1ms to 30days",
                "max_delay is 31days: use 1ms to 30days",
                "timeout is 1day: use 1ms to 1h",
                "max_delay is 31days, shorter than base_delay, 45days: the longest wait is the longest",
            ]
        );
    }
}
