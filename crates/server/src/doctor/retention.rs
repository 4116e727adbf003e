//! What is over for long and cannot be removed.

use super::check::Check;
use super::finding::Finding;

/// `held_up`: why nothing, or not everything, is removed.
pub(super) fn judge(held_up: Option<&str>) -> Vec<Finding> {
    let found = held_up.map(|why| {
        let message = format!("what is over for long is not removed, so that the database grows: {why}");
        let action = "see to the export's folder, or to the row that is named; it goes on by itself, and `GET /v1/health` tells \
                      under `retention` when everything old enough was last gone"
            .to_owned();
        Check::Retention.warning(None, message, action)
    });
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn what_is_in_the_way_of_retention_is_a_warning_with_its_reason() {
        assert_eq!(judge(None), []);
        let found = judge(Some("the disk is full"));
        assert_eq!((found[0].check, found[0].severity), (Check::Retention, Severity::Warning));
        assert!(found[0].message.ends_with("the disk is full"), "{found:?}");
    }
}
