//! Relative times.

use std::time::Duration;

use backstitch::Timestamp;

use backstitch_api::time::Time;

/// The distance of a time from now; the text itself if it is no time.
pub(crate) fn ago(written: &str, now: Timestamp) -> String {
    let Ok(Time(at)) = written.parse() else { return super::text::shown(written) };
    let micros = now.as_micros().saturating_sub(at.as_micros());
    let distance = rough(Duration::from_micros(micros.unsigned_abs()));
    match micros {
        ..-999_999 => format!("in {distance}"),
        -999_999..1_000_000 => "now".to_owned(),
        1_000_000.. => format!("{distance} ago"),
    }
}

/// A duration in its largest unit.
pub(crate) fn rough(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative() {
        let Time(now) = "2030-01-31T12:00:00Z".parse().unwrap();
        for (written, told) in [
            ("2030-01-31T12:00:00.4Z", "now"),
            ("2030-01-31T11:59:55Z", "5s ago"),
            ("2030-01-31T11:58:01Z", "1m ago"),
            ("2030-01-31T09:00:00Z", "3h ago"),
            ("2030-01-01T12:00:00Z", "30d ago"),
            ("2030-01-31T12:10:00Z", "in 10m"),
            ("soon\u{1b}", "soon\\u{1b}"),
        ] {
            assert_eq!(ago(written, now), told, "{written}");
        }
    }
}
