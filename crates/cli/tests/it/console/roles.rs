//! Every page and every form with every role.

use hyper::Method;

use crate::console::browser::Browser;
use crate::console::stage::{ROLES, on_both_stores};

const ROUTES: &str = include_str!("routes.txt");

fn sufficient(needed: &str) -> &'static [&'static str] {
    match needed {
        "viewer" => &["viewer", "client", "operator", "admin"],
        "client" => &["client", "operator", "admin"],
        "operator" => &["operator", "admin"],
        "admin" => &["admin"],
        other => panic!("{other} is not a role of the console"),
    }
}

fn placed(path: &str) -> String {
    let of_sagas = path.starts_with("/sagas");
    path.replace("{id}", if of_sagas { "0190b6f2-7e1a-7000-8000-000000000000" } else { "999999" })
        .replace("{step}", "a")
        .replace("{name}", "none")
        .replace("{machine}", "none")
        .replace("{key}", "k")
}

/// The status of a response, without waiting for the end of a stream.
async fn status(browser: &Browser, method: &Method, path: &str, token: &str) -> u16 {
    let cookie = browser.cookie.clone().unwrap_or_default();
    let mut headers = vec![("accept", "text/html"), ("content-type", "application/x-www-form-urlencoded")];
    if !cookie.is_empty() {
        headers.push(("cookie", &cookie));
    }
    let body = if method == Method::POST { format!("form_token={token}") } else { String::new() };
    browser.client.open(method.clone(), path, &headers, body).await.status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_and_form_admits_exactly_its_roles() {
    on_both_stores(async |stage| {
        let nobody = Browser::new(&stage.program.client);
        let mut browsers = Vec::new();
        for role in ROLES.into_iter().filter(|role| *role != "worker") {
            let browser = stage.as_role(role).await;
            let page = browser.see("/").await;
            let token = page.text.split("name=\"form_token\" value=\"").nth(1).unwrap();
            let token = token.split('"').next().unwrap().to_owned();
            browsers.push((role, browser, token));
        }
        for line in ROUTES.lines() {
            let [method, needed, path] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let (method, target) = (Method::from_bytes(method.as_bytes()).unwrap(), placed(path));
            let without = status(&nobody, &method, &target, "").await;
            if needed == "public" {
                assert!(without == 200 || (method == Method::POST && without == 401), "{line}: {without}");
                continue;
            }
            assert_eq!(without, if method == Method::GET { 303 } else { 401 }, "{line}, not signed in");
            if path == "/logout" {
                continue;
            }
            for (role, browser, token) in &browsers {
                let status = status(browser, &method, &target, token).await;
                if sufficient(needed).contains(role) {
                    assert!(
                        ![303, 401, 403, 405].contains(&status) || (method == Method::POST && status == 303),
                        "{line} as {role}: {status}"
                    );
                    assert!(status < 500, "{line} as {role}: {status}");
                } else {
                    assert_eq!(status, 403, "{line} as {role}");
                }
            }
        }
        let refused = stage.as_role("viewer").await.get("/audit").await;
        assert_eq!(refused.status, 403);
        assert!(
            refused.has("<h1>The API key does not suffice</h1>")
                && refused.has("operator") | refused.has("admin"),
            "{}",
            refused.text
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_sees_everything_and_no_button_that_changes_anything() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        stage.declare_waiting("slow").await;
        let [stuck, waiting] = [stage.stuck("order").await, stage.start_waiting("slow").await];
        let subscription = stage.subscribe("hook").await;
        stage.services.answer("hook", 400, "no");
        let dead = stage.tell("e-1", "DeadLettered").await;
        let message = stage.aborted("m-1").await;
        stage.declare_parcel().await;
        stage.api.post("/v1/lifecycles/parcel/p-1/start", &serde_json::json!({})).await;
        stage
            .put(
                "/v1/definitions/order",
                "name: order\nsteps: [{ id: other, action: { worker: { queue: q } } }]",
            )
            .await;
        let pages = [
            "/".to_owned(),
            "/sagas".to_owned(),
            format!("/sagas/{stuck}"),
            format!("/sagas/{waiting}"),
            "/definitions".to_owned(),
            "/definitions/order".to_owned(),
            "/orders".to_owned(),
            "/webhooks".to_owned(),
            format!("/webhooks/subscriptions/{subscription}"),
            "/webhooks/deliveries".to_owned(),
            format!("/webhooks/deliveries/{dead}"),
            "/webhooks/dead-letters".to_owned(),
            "/outbox".to_owned(),
            format!("/outbox/{message}"),
            "/lifecycles".to_owned(),
            "/lifecycles/parcel".to_owned(),
            "/lifecycles/parcel/p-1".to_owned(),
            "/lifecycle-dead-letters".to_owned(),
            "/alerts".to_owned(),
        ];
        let (viewer, admin) = (stage.as_role("viewer").await, stage.as_role("admin").await);
        let mut offered = 0;
        for path in pages {
            let page = viewer.see(&path).await;
            assert_eq!(page.forms().len(), 0, "{path}: {:?}", page.forms());
            assert!(!page.has("/audit\"") && !page.has("Write the next version"), "{path}");
            offered += admin.see(&path).await.forms().len();
        }
        assert!(offered >= 12, "an administrator is offered {offered}");
        assert!(admin.see("/audit").await.has("<h1>Audit</h1>"));
    })
    .await;
}
