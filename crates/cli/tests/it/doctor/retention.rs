//! Old rows that cannot be deleted.

use serde_json::json;

use crate::doctor::stage::open;
use crate::support::{Place, on_both};

#[tokio::test(flavor = "multi_thread")]
async fn held_up_retention_is_found_until_it_continues() {
    on_both(async |place: Place| {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("removed");
        let export = target.display().to_string();
        let variables = [
            ("BACKSTITCH_RETENTION_EXPORT", export.as_str()),
            ("BACKSTITCH_RETENTION_SAGAS_COMPENSATED", "1ms"),
            ("BACKSTITCH_SAGAS_TICK", "10ms"),
        ];
        let open = open(&place, &variables).await;
        open.is_well("retention").await;
        std::fs::remove_dir(&target).unwrap();
        open.declare().await;
        let saga = open.start().await;
        let refused = json!({ "error": { "message": "no", "kind": "refused" } });
        open.report(&open.lease("packing", 30).await, "fail", refused).await;
        let found = open.finds("retention", "warning", "").await;
        assert!(found["message"].as_str().unwrap().contains("cannot be exported"), "{found}");
        std::fs::create_dir(&target).unwrap();
        open.is_well("retention").await;
        assert_eq!(open.client.get(&format!("/v1/sagas/{saga}")).await.status, 404);
    })
    .await;
}
