//! Everything with an id is found by it.

use serde_json::json;

use crate::console::stage::{expect, on_both_stores};

#[tokio::test(flavor = "multi_thread")]
async fn whatever_has_this_id_is_found() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        stage.declare_parcel().await;
        let start = json!({ "correlation_id": "c-2" });
        let lifecycle = expect(&stage.api.post("/v1/lifecycles/parcel/p-1/start", &start).await, 202);
        stage.subscribe("hook").await;
        let delivery = stage.tell("e-1", "Completed").await;
        let viewer = stage.as_role("viewer").await;
        let found = async |id: &str| {
            let page = viewer.get(&format!("/find?id={id}")).await;
            if page.status == 303 { page.location() } else { format!("{}", page.status) }
        };
        let place = "/lifecycles/parcel/p%2D1";
        assert_eq!(found(&saga).await, format!("/sagas/{saga}"));
        assert_eq!(found(&format!("%20{saga}%20")).await, format!("/sagas/{saga}"));
        assert_eq!(found("c-1").await, format!("/sagas/{saga}"));
        assert_eq!(found(lifecycle["id"].as_str().unwrap()).await, place);
        assert_eq!((found("c-2").await.as_str(), found("p-1").await.as_str()), (place, place));
        for none in ["", "c-3", "0190b6f2-7e1a-7000-8000-000000000000", "77777", "%00"] {
            assert_eq!(found(none).await, "404", "{none}");
        }
        // A delivery, a subscription and a message may have the same number.
        let page = viewer.see(&format!("/find?id={delivery}")).await;
        assert!(page.has(&format!("<a href=\"/webhooks/deliveries/{delivery}\">")), "{}", page.text);

        let second = stage.start_waiting("slow").await;
        let both = viewer.see("/find?id=c-1").await;
        assert!(both.has(&saga) && both.has(&second), "{}", both.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overview_shows_running_and_stuck_sagas_and_nodes() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let waiting = stage.start_waiting("slow").await;
        stage.declare("order").await;
        let stuck = stage.stuck("order").await;
        let page = stage.as_role("viewer").await.see("/").await;
        assert!(page.has(&waiting) && page.has(&stuck), "{}", page.text);
        assert!(page.has("Rollbacks that wait for somebody") && page.has("Ended a minute"), "{}", page.text);
        assert!(page.has("this one") && page.has("lives"), "{}", page.text);
        assert!(page.has("data-live-from=\"/live\""));
    })
    .await;
}
