//! Items that the database rejects, and that their batches pass over.

use backstitch::Rfc3339;
use backstitch::store::parked::ParkedItem;

use super::check::Check;
use super::finding::Finding;

pub(super) fn judge(parked: &[ParkedItem]) -> Vec<Finding> {
    parked.iter().map(rejected).collect()
}

fn rejected(parked: &ParkedItem) -> Finding {
    let ParkedItem { area, item, reason, attempts, retry_at, .. } = parked;
    let times = if *attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    Check::ParkedItems.error(
        Some(format!("{area} {item}")),
        format!("the database has rejected it {times}, so it is parked and everything else goes on: {reason}"),
        format!(
            "put right what the error names, usually a row that is in the way; the item is tried again at {}, or at once \
             after `delete from parked_items where area = '{area}' and item = '{item}'`",
            Rfc3339(*retry_at)
        ),
    )
}

#[cfg(test)]
mod tests {
    use backstitch::Timestamp;

    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn parked_item_is_an_error_that_names_area_item_and_remedy() {
        assert_eq!(judge(&[]), []);
        let parked = ParkedItem {
            area: "webhook_results".to_owned(),
            item: "7".to_owned(),
            reason: "duplicate key".to_owned(),
            attempts: 2,
            parked_at: Timestamp::from_micros(0),
            retry_at: Timestamp::from_micros(120_000_000),
        };
        let found = judge(&[parked]);
        assert_eq!((found[0].check, found[0].severity), (Check::ParkedItems, Severity::Error));
        assert_eq!(found[0].subject.as_deref(), Some("webhook_results 7"));
        assert!(
            found[0].message.contains("2 times") && found[0].message.ends_with("duplicate key"),
            "{found:?}"
        );
        let action = &found[0].action;
        assert!(action.contains("1970-01-01T00:02:00"), "{action}");
        assert!(action.contains("where area = 'webhook_results' and item = '7'"), "{action}");
    }
}
