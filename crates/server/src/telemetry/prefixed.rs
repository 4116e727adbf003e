//! Metrics whose names lack the program's prefix are shown under both names: some names are fixed by a specification.

/// What every name begins with.
const PREFIX: &str = "backstitch_";
/// Names that Prometheus knows from every program.
const COMMON: &str = "process_";

/// The same metrics, and a copy under the prefixed name of each whose name lacks it.
pub(super) fn with_prefixed_names(metrics: &str) -> String {
    let mut all = metrics.trim_end().to_owned();
    all.push_str("\n\n");
    for line in metrics.lines() {
        let (comment, name) = match line.strip_prefix("# HELP ").map(|rest| ("# HELP ", rest)) {
            Some(help) => help,
            None => line.strip_prefix("# TYPE ").map_or(("", line), |rest| ("# TYPE ", rest)),
        };
        if name.is_empty() || name.starts_with(PREFIX) || name.starts_with(COMMON) {
            continue;
        }
        all.extend([comment, PREFIX, name, "\n"]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_the_prefix_are_shown_twice() {
        let text = "# HELP outbox_sent_total Sent.\n# TYPE outbox_sent_total counter\noutbox_sent_total 3\n\n\
                    # TYPE backstitch_a gauge\nbackstitch_a{b=\"c\"} 1\n\nprocess_open_fds 9\n";
        let all = with_prefixed_names(text);
        assert!(all.starts_with(text.trim_end()));
        let copies: Vec<&str> =
            all[text.trim_end().len()..].lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            copies,
            [
                "# HELP backstitch_outbox_sent_total Sent.",
                "# TYPE backstitch_outbox_sent_total counter",
                "backstitch_outbox_sent_total 3",
            ]
        );
    }
}
