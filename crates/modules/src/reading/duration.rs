//! Durations as people write them.

use std::time::Duration;

use serde_json::Value;

use super::quoted;

const DAY: u64 = 24 * 60 * 60;

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
        Value::String(text) => humantime::parse_duration(text).map_err(|_| wrong()),
        Value::Number(seconds) => {
            let seconds = seconds.as_f64().ok_or_else(wrong)?;
            Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

/// A duration as people would write it: in days from the first one on, since months of 30.44 days are nobody's.
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
