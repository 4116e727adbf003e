//! Numbers as people read them.

use std::time::Duration;

use backstitch_api::validate::shown_duration;

/// A time that has passed, to the second.
pub(super) fn ago(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return "less than a second".to_owned();
    }
    shown_duration(Duration::from_secs(time.as_secs()))
}

/// A number of bytes, in the largest unit that has at least one of.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0);
    unit.map_or_else(|| format!("{bytes} bytes"), |(name, shift)| format!("{} {name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_to_the_second() {
        let cases = [(0, "less than a second"), (1_900, "1s"), (61_000, "1m 1s"), (90_000_000, "1day 1h")];
        for (millis, told) in cases {
            assert_eq!(ago(Duration::from_millis(millis)), told);
        }
    }

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        for (number, told) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (104_857_600, "100 MiB"),
            (1 << 41, "2 TiB"),
        ] {
            assert_eq!(bytes(number), told);
        }
    }
}
