//! Items that the database rejects, and that their batches pass over.

use backstitch::store::parked::ParkedItem;

use super::check::Check;
use super::finding::Finding;
use crate::parked::{ParkedId, effect, remedy};

pub(super) fn judge(parked: &[ParkedItem]) -> Vec<Finding> {
    parked.iter().map(rejected).collect()
}

fn rejected(parked: &ParkedItem) -> Finding {
    let ParkedItem { area, reason, attempts, .. } = parked;
    let times = if *attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    Check::ParkedItems.error(
        Some(ParkedId::of(parked).to_string()),
        format!(
            "the database has rejected it {times}; {}, and everything else goes on: {reason}",
            effect(area)
        ),
        remedy(parked),
    )
}

#[cfg(test)]
mod tests {
    use backstitch::Timestamp;

    use super::*;
    use crate::doctor::finding::Severity;

    fn parked(area: &str, item: &str) -> ParkedItem {
        ParkedItem {
            area: area.to_owned(),
            item: item.to_owned(),
            reason: "duplicate key".to_owned(),
            attempts: 2,
            parked_at: Timestamp::from_micros(0),
            retry_at: Timestamp::from_micros(120_000_000),
        }
    }

    #[test]
    fn parked_item_is_an_error_that_names_its_id_and_remedy() {
        assert_eq!(judge(&[]), []);
        let found = judge(&[parked("outbox", "7")]);
        assert_eq!((found[0].check, found[0].severity), (Check::ParkedItems, Severity::Error));
        assert_eq!(found[0].subject.as_deref(), Some("outbox:7"));
        let message = &found[0].message;
        assert!(message.contains("2 times; this message waits"), "{message}");
        assert!(message.ends_with("duplicate key"), "{message}");
        let action = &found[0].action;
        assert!(action.contains("1970-01-01T00:02:00"), "{action}");
        assert!(action.contains("`backstitch parked retry outbox:7`"), "{action}");
        assert!(!action.contains("remove-conflict"), "{action}");
    }

    #[test]
    fn remedy_of_a_webhook_result_names_the_way_out() {
        let found = judge(&[parked("webhook_results", "7")]);
        let action = &found[0].action;
        assert!(action.contains("`backstitch parked remove-conflict webhook_results:7`"), "{action}");
        assert!(action.contains("`backstitch parked retry webhook_results:7`"), "{action}");
    }
}
