//! Parses durations in text form.

use std::time::Duration;

use humantime::DurationError;

/// Reads a duration such as `200ms`, `30s` or `1h 30m`.
///
/// # Errors
/// When the text is no duration, or longer than a [`Duration`] can be.
#[expect(clippy::disallowed_methods, reason = "of one part it does not panic")]
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    // One by one, because `humantime` panics if the sum exceeds the longest duration.
    let mut sum = Duration::ZERO;
    for part in parts(text) {
        // `0` needs no unit, but only on its own.
        let part = if part == "0" { text } else { part };
        sum = sum.checked_add(humantime::parse_duration(part)?).ok_or(DurationError::NumberOverflow)?;
    }
    Ok(sum)
}

/// The text before each number that follows a unit; the whole text without one.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut ends_in_unit = false;
    let mut starts = vec![0];
    for (at, letter) in text.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
        if letter.is_ascii_digit() && ends_in_unit {
            starts.push(at);
        }
        ends_in_unit = letter.is_alphabetic();
    }
    let ends: Vec<usize> = starts[1..].iter().copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(move |(start, end)| &text[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is compared with")]
    fn durations_are_sums_of_their_parts() {
        for (text, millis) in [
            ("200ms", 200),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            (" 1 0 s  5 ms ", 10_005),
            ("1.5s", 1_500),
            ("1d 2h 3m 4s 5ms", 93_784_005),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(parse_duration(text), humantime::parse_duration(text), "{text}");
        }
        for text in ["", " ", "5", "s", "5 s s", "5s,3m", "5s -3m", "5 parsecs", "1.s", "5s3", "5s0", "5s 0"]
        {
            assert!(parse_duration(text).is_err() && humantime::parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn duration_beyond_the_longest_is_an_error() {
        let longest = format!("{}s", u64::MAX);
        assert_eq!(parse_duration(&longest), Ok(Duration::from_secs(u64::MAX)));
        for text in [format!("{longest} 1s"), format!("{longest} 1000ms"), format!("1{longest}")] {
            assert_eq!(parse_duration(&text), Err(DurationError::NumberOverflow), "{text}");
        }
    }
}
