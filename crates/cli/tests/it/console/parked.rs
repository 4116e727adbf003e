//! Items that the database rejected, as operators see and retry them.

use crate::console::stage::{Stage, on_both_stores};

/// Parks a made-up item for an hour.
async fn park(stage: &Stage, area: &str, item: &str, reason: &str) {
    let (now, later) = if stage.place.is_shared() {
        ("now()", "now() + interval '1 hour'")
    } else {
        ("unixepoch() * 1000000", "(unixepoch() + 3600) * 1000000")
    };
    let park = format!(
        "insert into parked_items (area, item, reason, attempts, parked_at, retry_at)
         values ('{area}', '{item}', '{reason}', 1, {now}, {later})"
    );
    stage.place.rows(&park).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_items_are_shown_and_retried() {
    on_both_stores(async |stage| {
        for (area, item) in [("outbox", "7"), ("outbox", "8"), ("webhook_results", "9")] {
            park(&stage, area, item, "<b>duplicate key").await;
        }
        let (viewer, operator) = (stage.as_role("viewer").await, stage.as_role("operator").await);
        let doctor = viewer.see("/doctor").await;
        assert!(doctor.has("href=\"/parked\"") && doctor.has("outbox:7"), "{}", doctor.text);
        let page = viewer.see("/parked").await;
        assert!(page.has("outbox:7") && page.has("&#60;b&#62;duplicate key"), "{}", page.text);
        assert!(!page.has("<form method=\"post\" action=\"/parked"), "{}", page.text);
        let page = viewer.see("/parked?area=webhook_results").await;
        assert!(page.has("webhook_results:9") && !page.has("outbox:7"), "{}", page.text);

        let page = operator.see("/parked").await;
        let retry = page.must_form("/parked/outbox%3A7/retry");
        let all = page.must_form("/parked/retry");
        let remove = page.must_form("/parked/webhook%5Fresults%3A9/remove-conflict");
        let none = operator.send(&remove, &[]).await;
        assert_eq!(none.status, 409, "{none:?}");
        let page = operator.submit(&retry, &[]).await;
        assert!(page.has("It is tried again now") && !page.has("outbox:7"), "{}", page.text);
        let page = operator.submit(&all, &[]).await;
        assert!(page.has("nothing is parked"), "{}", page.text);
        let expected = [
            "operator POST /parked/retry: 303",
            "operator POST /parked/outbox%3A7/retry: 303",
            "operator POST /parked/webhook%5Fresults%3A9/remove-conflict: 409",
        ];
        assert_eq!(stage.audited(3).await, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_all_keeps_to_the_filters_of_the_page() {
    on_both_stores(async |stage| {
        for (area, item, reason) in
            [("outbox", "7", "duplicate key"), ("outbox", "8", "a check"), ("jobs", "9", "duplicate key")]
        {
            park(&stage, area, item, reason).await;
        }
        let operator = stage.as_role("operator").await;
        let page = operator.see("/parked?area=outbox&reason=duplicate+key").await;
        assert!(page.has("outbox:7") && !page.has("outbox:8") && !page.has("jobs:9"), "{}", page.text);
        let page = operator.submit(&page.must_form("/parked/retry"), &[]).await;
        assert!(page.has("nothing is parked") && page.has("value=\"duplicate key\""), "{}", page.text);
        let page = operator.see("/parked").await;
        assert!(!page.has("outbox:7") && page.has("outbox:8") && page.has("jobs:9"), "{}", page.text);
    })
    .await;
}
