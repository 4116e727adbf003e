//! Items that the database rejects.

use crate::doctor::stage::{in_seconds, open};
use crate::support::{Place, on_both};

#[tokio::test(flavor = "multi_thread")]
async fn parked_item_is_found_with_its_error_and_remedy() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        open.is_well("parked_items").await;
        let (now, later) = (in_seconds(&place, 0), in_seconds(&place, 3600));
        let park = format!(
            "insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
             values ('webhook_results', '7', 'duplicate key', 1, {now}, {later}),
                    ('webhook_results', '8', 'over', 1, {now}, {now})"
        );
        place.rows(&park).await;
        let found = open.finds("parked_items", "error", "webhook_results 7").await;
        assert!(found["message"].as_str().unwrap().contains("duplicate key"), "{found}");
        assert!(found["action"].as_str().unwrap().contains("delete from parked_items"), "{found}");
        assert_eq!(open.found("parked_items").await.len(), 1, "what is tried again is not parked");
        place.rows("delete from parked_items").await;
        open.is_well("parked_items").await;
    })
    .await;
}
