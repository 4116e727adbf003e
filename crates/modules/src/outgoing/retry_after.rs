//! When a service wants to be called again: a number of seconds, or a date.

use std::time::{Duration, UNIX_EPOCH};

use backstitch::Timestamp;
use http::header::{HeaderMap, RETRY_AFTER};

/// Longer wishes are for ever; whoever hears them has a limit of their own.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long the service asks to be left alone, if it does and can be understood.
pub(crate) fn read(headers: &HeaderMap, now: impl FnOnce() -> Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)).min(LONGEST));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let date = Timestamp::from_micros(i64::try_from(date.as_micros()).ok()?);
    Some(date.since(now()))
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    /// 1994-11-06 08:49:30 UTC.
    const NOW: Timestamp = Timestamp::from_micros(784_111_770_000_000);

    fn asked(text: &[u8]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_bytes(text).unwrap());
        read(&headers, || NOW)
    }

    #[test]
    fn a_number_is_seconds() {
        assert_eq!(asked(b"7"), Some(Duration::from_secs(7)));
        assert_eq!(asked(b" 0 "), Some(Duration::ZERO));
    }

    #[test]
    fn a_date_is_told_from_now() {
        assert_eq!(asked(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(asked(b"Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO), "it has passed");
    }

    #[test]
    fn a_wish_beyond_all_numbers_is_a_long_one() {
        assert_eq!(asked(b"99999999999999999999"), Some(LONGEST));
    }

    #[test]
    fn what_cannot_be_understood_is_no_wish() {
        for text in [&b"soon"[..], b"-5", b"+5", b"1.5", b"", b"\xff", b"Sun, 06 Nov 1994"] {
            assert_eq!(asked(text), None, "{text:?}");
        }
        assert_eq!(read(&HeaderMap::new(), || NOW), None);
    }
}
