//! `orders` and `sites`

use backstitch_demo::services::{Phase, Service};
use serde_json::{Map, json};

use crate::cli::stage::{Stage, on_both_stores};

const ORDER: &str = r#"{"order_id": "o-1", "customer_id": "c-1", "items": [{"sku": "book", "quantity": 1}], "amount": "19.90"}"#;

#[tokio::test]
async fn orders_use_applied_services() {
    on_both_stores(async |stage: Stage| {
        let nowhere = stage.run_on(&["orders", "start", "-"], ORDER).await.failed();
        assert!(nowhere.contains("/docs/errors/"), "{nowhere}");
        let endpoint = |service: Service| {
            let url = |phase| stage.services.url(service, phase);
            let places = json!({ "url": url(Phase::Do), "rollback_url": url(Phase::Undo) });
            (service.name().to_owned(), places)
        };
        let endpoints: Map<_, _> = Service::ALL.map(endpoint).into_iter().collect();
        let change = json!({ "order": ["inventory", "payment", "logistics"], "endpoints": endpoints });
        let stage_services = ["orders", "services", "stage", "-"];
        let staged = stage.run_on(&stage_services, &change.to_string()).await.good();
        assert!(staged.contains("Staged as revision "), "{staged}");
        let at = |service| staged.find(&format!("\n{service} ")).unwrap();
        assert!(at("inventory") < at("payment"), "as they are called: {staged}");
        let wrong = stage.run(&["orders", "services", "apply", "--revision", "x"]).await.failed();
        assert!(wrong.contains("/docs/errors/raced"), "{wrong}");
        let shown = stage.run(&["orders", "services", "show", "--json"]).await.json();
        let revision = shown["revision"].as_str().unwrap();
        let applied = stage.run(&["orders", "services", "apply", "--revision", revision]).await.good();
        assert!(applied.contains("Active") && !applied.contains("Staged"), "{applied}");

        let timeouts =
            stage.run_on(&["orders", "timeouts", "stage", "-"], r#"{"payment": "9s"}"#).await.good();
        assert!(timeouts.contains("Active") && timeouts.contains("9s"), "{timeouts}");
        assert!(!stage.run(&["orders", "timeouts", "discard"]).await.good().contains("9s"));
        let nothing = stage.run(&["orders", "timeouts", "apply"]).await.failed();
        assert!(nothing.contains("/docs/errors/nothing-staged"), "{nothing}");

        let start = ["orders", "start", "-", "--key", "once"];
        let followed = stage.run_on(&[&start[..], &["--follow"]].concat(), ORDER).await.good();
        assert!(
            followed.contains("confirmed: transaction ") && followed.contains("✓ succeeded"),
            "{followed}"
        );
        let again = stage.run_on(&[&start[..], &["--json"]].concat(), ORDER).await.json();
        let tx = again["tx_id"].as_str().unwrap();
        assert!(followed.contains(tx), "the same key is the same order: {followed}");
        let shown = stage.run(&["orders", "show", tx]).await.good();
        assert!(shown.contains("complete") && shown.contains("Services"), "{shown}");
        let log = stage.run(&["orders", "log", tx]).await.good();
        assert!(log.contains("U  uncommitted") && log.contains("S  succeeded"), "{log}");
        let unknown = stage.run(&["orders", "show", "01923c4e-5b6a-7000-8000-000000000001"]).await.failed();
        assert!(unknown.contains("/docs/errors/"), "{unknown}");
    })
    .await;
}

#[tokio::test]
async fn a_site_is_asked_for_and_shown() {
    let stage = Stage::new().await;
    let start = ["sites", "start", "site-1", "--input", "-", "--correlation-id", "c-1"];
    let wish = r#"{"repository": "acme/docs"}"#;
    assert_eq!(stage.run_on(&start, wish).await.good(), "site site-1 is in requested\n");
    let again = stage.run_on(&[&start[..], &["--json"]].concat(), wish).await.json();
    assert_eq!((&again["attempt"], &again["correlation_id"]), (&json!(2), &json!("c-1")));
    let shown = stage.run(&["sites", "show", "site-1"]).await.good();
    assert!(shown.starts_with("Site site-1\n") && shown.contains("requested"), "{shown}");
    let input = stage.run(&["lifecycles", "show", "site-provisioning", "site-1", "--json"]).await.json();
    assert_eq!(input["input"]["repository"], "acme/docs");
    let fail = ["lifecycles", "fail", "site-provisioning", "site-1", "internal", "--message", "lost"];
    stage.run(&fail).await.good();
    let over = stage.run(&["sites", "start", "site-1"]).await.good();
    assert!(over.starts_with("site site-1 stays in failed: "), "{over}");
    assert!(
        stage.run(&["sites", "show", "nowhere"]).await.failed().contains("nobody has asked for the site")
    );
    let no_object = stage.run_on(&["sites", "start", "s", "--input", "-"], "[]").await.failed();
    assert!(no_object.contains("is no object of JSON"), "{no_object}");
}
