//! Every error page has a link back to an existing page.

use hyper::Method;

use crate::console::browser::{Browser, Page};
use crate::console::stage::on_both_stores;

const ROUTES: &str = include_str!("routes.txt");

/// Where `Back` leads.
fn back(page: &Page) -> String {
    let before = page.text.split("\">Back</a>").next().filter(|_| page.has("\">Back</a>"));
    before
        .unwrap_or_else(|| panic!("no way back: {}", page.text))
        .rsplit("href=\"")
        .next()
        .unwrap()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_every_form_that_is_refused_a_way_leads_back_to_a_page() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let subscription = stage.subscribe("hook").await;
        stage.services.answer("hook", 400, "no");
        let dead = stage.tell("e-1", "DeadLettered").await;
        let message = stage.aborted("m-1").await;
        stage.declare_parcel().await;
        stage.api.post("/v1/lifecycles/parcel/p-1/start", &serde_json::json!({})).await;
        let placed = |path: &str| {
            let id = match path {
                _ if path.starts_with("/sagas") => saga.clone(),
                _ if path.contains("/subscriptions/") => subscription.to_string(),
                _ if path.starts_with("/outbox") => message.to_string(),
                _ => dead.to_string(),
            };
            path.replace("{id}", &id)
                .replace("{step}", "first")
                .replace("{name}", "slow")
                .replace("{machine}", "parcel")
                .replace("{key}", "p%2D1")
        };
        let admin = stage.as_role("admin").await;
        let nobody = Browser::new(&stage.program.client);
        let forms = ROUTES.lines().filter_map(|line| line.strip_prefix("POST "));
        let forms = forms.map(|line| line.split_once(' ').unwrap().1).filter(|path| *path != "/login");
        for path in forms {
            let refused = nobody.post(&placed(path), &[], &[]).await;
            assert_eq!(refused.status, 401, "{path}: {refused:?}");
            let place = back(&refused);
            admin.see(&place).await;
            if path.starts_with("/machines/") {
                assert_eq!(place, "/lifecycles/parcel");
            }
            if path.starts_with("/sagas/{id}") {
                assert_eq!(place, format!("/sagas/{saga}"));
            }
            let foreign = admin.post(&placed(path), &[], &[]).await;
            assert_eq!(foreign.status, 403, "{path}: {foreign:?}");
            admin.see(&back(&foreign)).await;
        }
        for unknown in
            ["/webhooks/subscriptions/99", "/webhooks/deliveries/99", "/outbox/99", "/lifecycles/none"]
        {
            let missing = admin.get(unknown).await;
            assert_eq!(missing.status, 404, "{unknown}: {missing:?}");
            admin.see(&back(&missing)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_page_keeps_the_session() {
    on_both_stores(async |stage| {
        let viewer = stage.as_role("viewer").await;
        for (path, status) in
            [("/nowhere", 404), ("/orders/services/apply", 405), ("/webhooks/subscriptions/99", 404)]
        {
            let page = viewer.get(path).await;
            assert_eq!(page.status, status, "{path}: {page:?}");
            assert_eq!(page.answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
            assert!(page.has("viewer · viewer") && page.has("Parts of the console"), "{path}: {}", page.text);
            assert!(!page.has(">Sign in</a>"), "{path}: {}", page.text);
            viewer.see(&back(&page)).await;
        }
        let program = viewer.client.send(Method::GET, "/orders/services/apply", &[], "").await;
        assert_eq!((program.status, program.problem().as_str()), (405, "method-not-allowed"));
        assert_eq!(program.headers["allow"], "POST");
        let nobody = Browser::new(&stage.program.client).get("/nowhere").await;
        assert!(nobody.status == 404 && !nobody.has("Parts of the console"), "{}", nobody.text);
    })
    .await;
}
