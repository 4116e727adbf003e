//! Durations as text.

use std::time::Duration;

use backstitch::kernel::parse_duration;
use serde_json::Value;

use super::quoted;

const DAY: u64 = 24 * 60 * 60;

/// The units: their names, how many nanoseconds one has, and how many decimal places are exact.
const UNITS: [(&str, u64, u32); 10] = [
    ("ns|nsec|nanos", 1, 0),
    ("us|µs|usec", 1_000, 3),
    ("ms|msec|millis", 1_000_000, 6),
    ("s|secs?|seconds?", SECOND, 9),
    ("m|mins?|minutes?", 60 * SECOND, 8),
    ("h|hrs?|hours?", 3_600 * SECOND, 2),
    ("d|days?", DAY * SECOND, 2),
    ("w|wks?|weeks?", 7 * DAY * SECOND, 2),
    // 30.44 days and 365.25 days.
    ("M|months?", 2_630_016 * SECOND, 0),
    ("y|yrs?|years?", 31_557_600 * SECOND, 2),
];
const SECOND: u64 = 1_000_000_000;

/// What [`written_duration`] reads as text, as a regular expression for descriptions of the API. Each part of it is at most this
/// long; no expression can bound their sum.
#[must_use]
pub fn duration_pattern(longest: Duration) -> String {
    let nanoseconds = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
    let parts = UNITS.map(|(names, length, places)| {
        let decimals = if places > 0 { format!("(\\.[0-9]{{1,{places}}})?") } else { String::new() };
        format!("({}){decimals} ?({names})", number_up_to(nanoseconds / length))
    });
    format!("^(({}) ?)+$", parts.join("|"))
}

/// Whole numbers from 0 up to this one.
fn number_up_to(most: u64) -> String {
    let digits = most.to_string();
    let mut choices = vec!["0".to_owned()];
    if digits.len() > 1 {
        choices.push(format!("[1-9][0-9]{{0,{}}}", digits.len() - 2));
    }
    // As many digits: the first that differs is smaller.
    for (at, digit) in digits.bytes().enumerate() {
        let least = if at == 0 { b'1' } else { b'0' };
        if digit > least {
            let (least, smaller) = (char::from(least), char::from(digit - 1));
            choices.push(format!("{}[{least}-{smaller}][0-9]{{{}}}", &digits[..at], digits.len() - at - 1));
        }
    }
    choices.push(digits);
    choices.join("|")
}

/// A duration as people write it, or as a number of seconds.
///
/// # Errors
/// When it is neither: what to write instead.
pub fn written_duration(value: &Value) -> Result<Duration, String> {
    let wrong = || {
        let shown = value.as_str().map_or_else(|| quoted(&value.to_string()), quoted);
        format!("`{shown}` is no duration: write it like \"45s\", or as a number of seconds")
    };
    match value {
        Value::String(text) => parse_duration(text).map_err(|_| wrong()),
        Value::Number(seconds) => {
            let seconds = seconds.as_f64().ok_or_else(wrong)?;
            Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

/// A duration as text, in days rather than in months of 30.44 days.
#[must_use]
pub fn shown_duration(duration: Duration) -> String {
    let days = duration.as_secs() / DAY;
    let rest = duration.saturating_sub(Duration::from_secs(days * DAY));
    let whole = if days == 1 { "1day".to_owned() } else { format!("{days}days") };
    match (days, rest.is_zero()) {
        (0, _) => humantime::format_duration(duration).to_string(),
        (_, true) => whole,
        (_, false) => format!("{whole} {}", humantime::format_duration(rest)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_duration_is_shown_in_the_words_it_would_be_written_in() {
        for shown in [
            "0s",
            "200ms",
            "90days",
            "1h 30m",
            "1day",
            "1day 12h",
            "31days",
            "45days 1h",
            "366days",
            "1000days 1ns",
        ] {
            let read = written_duration(&json!(shown)).unwrap();
            assert_eq!(shown_duration(read), shown);
        }
    }

    #[test]
    fn what_is_no_duration_is_repeated_as_it_is_written() {
        for (written, shown) in [
            (json!("soon"), "`soon`"),
            (json!("\"5m\""), "`\"5m\"`"),
            (json!("a day's"), "`a day's`"),
            (json!("so\non"), "`so\\non`"),
            (json!(""), "``"),
            (json!(-1), "`-1`"),
            (json!(["5m"]), "`[\"5m\"]`"),
        ] {
            let told = written_duration(&written).unwrap_err();
            assert_eq!(
                told,
                format!("{shown} is no duration: write it like \"45s\", or as a number of seconds")
            );
        }
    }
}
