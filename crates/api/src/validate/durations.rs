//! Durations of requests: text with a unit, or a number of seconds, within bounds.

use std::borrow::Cow;
use std::time::Duration;

use backstitch::kernel::mistakes::MAX_DURATION;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{Number, PartialSchema, ToSchema};

use super::schema::{Components, collect, of};
use super::{Input, Node, duration_pattern, shown_duration, written_duration};

/// Days, hours, minutes, seconds and milliseconds in this order, at most 366 days together.
const UP_TO_366_DAYS: &str = "^(([1-9][0-9]?|[12][0-9]{2}|3[0-4][0-9])(d|days?)( [1-9][0-9]?h)?( [1-9][0-9]{0,3}m)?( [1-9][0-9]{0,4}s)?\
    |(35[0-9]|36[0-6])(d|days?)|[1-9][0-9]{0,2}h( [1-9][0-9]{0,3}m)?( [1-9][0-9]{0,4}s)?|[1-9][0-9]{0,4}m( [1-9][0-9]{0,4}s)?\
    |[1-9][0-9]{0,6}s( [1-9][0-9]{0,6}ms)?|[1-9][0-9]{0,9}ms)$";
const UP_TO_30_DAYS: &str = "^(([1-9]|1[0-9]|2[0-4])(d|days?)( [1-9][0-9]?h)?( [1-9][0-9]{0,2}m)?( [1-9][0-9]{0,3}s)?\
    |(2[5-9]|30)(d|days?)|([1-9][0-9]?|[1-6][0-9]{2})h( [1-9][0-9]{0,2}m)?( [1-9][0-9]{0,3}s)?|[1-9][0-9]{0,3}m( [1-9][0-9]{0,3}s)?\
    |[1-9][0-9]{0,5}s( [1-9][0-9]{0,5}ms)?|[1-9][0-9]{0,8}ms)$";
const UP_TO_AN_HOUR: &str = "^(1h|60m|([1-9]|[1-5][0-9])m( [1-5]?[0-9]s)?|3600s|([1-9][0-9]{0,2}|[12][0-9]{3}|3[0-5][0-9]{2})s\
    |[1-9][0-9]{0,5}ms)$";
const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
const SHORTEST: Duration = Duration::from_millis(1);
/// The beginning of a pattern of text with a digit other than 0.
const NOT_ZERO: &str = "^(?![^1-9]*$)";

/// A kind of duration: its name in the description, what it says, its pattern as text, its bounds and an example.
macro_rules! durations {
    ($($(#[doc = $about:literal])* $kind:ident $name:literal $pattern:expr, $least:expr, $most:expr, $example:literal;)*) => {$(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $kind(pub Duration);

        impl $kind {
            /// Checks a duration that comes from somewhere else than a request.
            ///
            /// # Errors
            /// What to use, when it is out of bounds.
            pub fn check(duration: Duration) -> Result<(), String> {
                check(duration, $least, $most)
            }
        }

        impl Input for $kind {
            fn read(node: &Node<'_>) -> Option<Self> {
                let duration = node.duration_or_seconds()?;
                Self::check(duration).map_err(|why| node.wrong(why)).ok()?;
                Some(Self(duration))
            }

            fn schema() -> RefOr<Schema> {
                of::<Self>().into()
            }

            fn collect(components: &mut Components) {
                collect::<Self>(components);
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&shown_duration(self.0))
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                written_duration(&Value::deserialize(deserializer)?).map(Self).map_err(Error::custom)
            }
        }

        impl PartialSchema for $kind {
            fn schema() -> RefOr<Schema> {
                text_or_seconds(concat!($($about),*).trim(), $pattern, ($least, $most), $example)
            }
        }

        impl ToSchema for $kind {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    )*};
}

durations! {
    /// A duration up to 366 days: text like `45s` or `1h 30m`, or a number of seconds.
    WrittenDuration "Duration" UP_TO_366_DAYS.to_owned(), SHORTEST, 366 * DAY, "45s";
    /// A wait up to 30 days: text like `5s` or `1h 30m`, or a number of seconds.
    Delay "Delay" UP_TO_30_DAYS.to_owned(), SHORTEST, 30 * DAY, "5s";
    /// A time up to an hour: text like `15s`, or a number of seconds.
    AttemptTimeout "AttemptTimeout" UP_TO_AN_HOUR.to_owned(), SHORTEST, HOUR, "15s";
    /// How long two secrets are good, up to 30 days: text like `24h`, or a number of seconds.
    Overlap "Overlap" format!("^0s$|{UP_TO_30_DAYS}"), Duration::ZERO, 30 * DAY, "24h";
}

fn check(duration: Duration, least: Duration, most: Duration) -> Result<(), String> {
    if (least..=most).contains(&duration) {
        return Ok(());
    }
    let [duration, least, most] = [duration, least, most].map(shown_duration);
    Err(format!("is {duration}: use {least} to {most}"))
}

fn text_or_seconds(
    about: &str,
    pattern: String,
    (least, most): (Duration, Duration),
    example: &str,
) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).examples([example]);
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Number)
        .minimum(Some(Number::Float(least.as_secs_f64())))
        .maximum(Some(Number::Float(most.as_secs_f64())));
    OneOfBuilder::new().description(Some(about)).item(text).item(seconds).examples([example]).into()
}

/// A kind of duration that is written with its unit: what it says and its pattern.
macro_rules! texts {
    ($($(#[doc = $about:literal])* $kind:ident $pattern:expr;)*) => {$(
        $(#[doc = $about])*
        pub struct $kind;

        impl PartialSchema for $kind {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern));
                text.description(Some(concat!($($about),*).trim())).examples(["45s"]).into()
            }
        }

        impl ToSchema for $kind {
            fn name() -> Cow<'static, str> {
                stringify!($kind).into()
            }
        }
    )*};
}

texts! {
    /// A duration up to 366 days, like `45s` or `1h 30m`.
    DurationText duration_pattern(MAX_DURATION).replacen('^', NOT_ZERO, 1);
    /// A wait up to 366 days, like `45s` or `1h 30m`; `0s` is none.
    WaitText duration_pattern(MAX_DURATION);
}
