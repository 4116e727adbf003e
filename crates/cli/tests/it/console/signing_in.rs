//! Signing in: who, for how long, and the redirects.

use hyper::Method;

use crate::console::browser::Browser;
use crate::console::stage::on_both_stores;
use crate::support::program::output_of;
use crate::support::{Program, on_both};

#[tokio::test(flavor = "multi_thread")]
async fn visitor_signs_in_and_is_redirected_back() {
    on_both_stores(async |stage| {
        let nobody = Browser::new(&stage.program.client);
        let page = nobody.get("/sagas?status=failed").await;
        assert_eq!((page.status, page.location().as_str()), (303, "/login?next=%2Fsagas%3Fstatus%3Dfailed"));
        assert!(page.text.is_empty());
        let asked = nobody.see(&page.location()).await;
        assert!(asked.has(r#"name="next" value="/sagas?status=failed""#) && asked.has("API key"));
        let key = stage.key("viewer");
        let sent = nobody.post("/login", &[("key", key), ("next", "/sagas?status=failed")], &[]).await;
        assert_eq!((sent.status, sent.location().as_str()), (303, "/sagas?status=failed"));
        let kept = sent.answer.headers["set-cookie"].to_str().unwrap();
        assert!(kept.contains("HttpOnly") && kept.contains("SameSite=Lax") && !kept.contains(key), "{kept}");
        let viewer = Browser { cookie: Some(sent.cookie()), ..nobody.clone() };
        let page = viewer.see("/sagas?status=failed").await;
        assert!(page.has("viewer · viewer"), "{}", page.text);
        let elsewhere = nobody.post("/login", &[("key", key), ("next", "//evil.example")], &[]).await;
        assert_eq!(elsewhere.location(), "/");
        let encrypted = nobody.post("/login", &[("key", key)], &[("x-forwarded-proto", "https")]).await;
        assert!(encrypted.answer.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_or_one_that_may_see_nothing_opens_nothing() {
    on_both_stores(async |stage| {
        let nobody = Browser::new(&stage.program.client);
        for wrong in ["", "bsk_x", &format!("bsk_{}", "A".repeat(43))] {
            let page = nobody.try_to_sign_in(wrong).await;
            assert_eq!(page.status, 401, "{wrong}: {page:?}");
            assert!(
                page.answer.headers.get("set-cookie").is_none() && page.has("role=\"alert\""),
                "{page:?}"
            );
        }
        let worker = nobody.try_to_sign_in(stage.key("worker")).await;
        assert_eq!(worker.status, 403, "{worker:?}");
        assert!(worker.answer.headers.get("set-cookie").is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_or_expired_cookie_is_invalid() {
    on_both_stores(async |stage| {
        let viewer = stage.as_role("viewer").await;
        viewer.see("/").await;
        let cookie = viewer.cookie.clone().unwrap();
        let mut changed = cookie.clone().into_bytes();
        let at = cookie.find('=').unwrap() + 9;
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        for wrong in
            [changed.as_str(), "backstitch_session=", "backstitch_session=zzz", &cookie[..cookie.len() - 4]]
        {
            let browser = Browser { cookie: Some(wrong.to_owned()), ..viewer.clone() };
            let page = browser.get("/sagas").await;
            assert_eq!(
                (page.status, page.location().as_str()),
                (303, "/login?next=%2Fsagas&ended=1"),
                "{wrong}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_invalidates_every_copy_of_the_cookie() {
    on_both_stores(async |stage| {
        let [leaves, stays] = [stage.as_role("viewer").await, stage.as_role("viewer").await];
        let token = leaves.see("/").await.form_token();
        let out = leaves.post("/logout", &[("form_token", &token)], &[]).await;
        assert_eq!((out.status, out.location().as_str()), (303, "/login"));
        assert!(out.answer.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        let copied = leaves.get("/sagas").await;
        assert_eq!((copied.status, copied.location().as_str()), (303, "/login?next=%2Fsagas&ended=1"));
        let form = leaves.post("/sagas/bulk", &[("form_token", &token), ("action", "cancel")], &[]).await;
        assert_eq!(form.status, 401, "{form:?}");
        stays.see("/sagas").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_key() {
    on_both_stores(async |stage| {
        let operator = stage.as_role("operator").await;
        operator.see("/").await;
        let revoked = output_of(&["keys", "--db", &stage.place.db(), "revoke", "4"]).await;
        assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
        crate::support::within(async {
            while operator.get("/").await.status != 303 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
        let page = operator.post("/sagas/bulk", &[("action", "cancel")], &[]).await;
        assert_eq!(page.status, 401, "{page:?}");
        assert!(page.has("nothing was done"), "{}", page.text);
        let led = operator.get("/").await;
        assert!(led.answer.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"), "{led:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_session_does_not_prevent_a_sign_in() {
    on_both_stores(async |stage| {
        let operator = stage.as_role("operator").await;
        let again = operator.try_to_sign_in(stage.key("admin")).await;
        assert_eq!(again.status, 303, "in a second tab: {again:?}");
        let revoked = output_of(&["keys", "--db", &stage.place.db(), "revoke", "4"]).await;
        assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
        crate::support::within(async {
            while operator.get("/").await.status != 303 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
        assert!(operator.see("/login").await.has("API key"));
        let again = operator.try_to_sign_in(stage.key("viewer")).await;
        assert_eq!(again.status, 303, "with the cookie of a key that was revoked: {again:?}");
        let viewer = Browser { cookie: Some(again.cookie()), ..operator.clone() };
        assert!(viewer.see("/").await.has("viewer · viewer"));
        let foreign = [("origin", "https://evil.example")];
        let elsewhere = operator.post("/login", &[("key", stage.key("viewer"))], &foreign).await;
        assert_eq!(elsewhere.status, 403, "{elsewhere:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_security_policy_is_minimal() {
    on_both_stores(async |stage| {
        let viewer = stage.as_role("viewer").await;
        let pages =
            ["/", "/sagas", "/definitions", "/orders", "/webhooks", "/outbox", "/lifecycles", "/alerts"];
        for path in pages {
            let page = viewer.see(path).await;
            let headers = &page.answer.headers;
            let policy = headers["content-security-policy"].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(
                (&headers["cache-control"], &headers["x-content-type-options"]),
                (&"no-store".parse().unwrap(), &"nosniff".parse().unwrap())
            );
            for forbidden in ["<style", " style=", " onclick=", "javascript:", "http://", "https://"] {
                assert!(
                    !page.text.replace("http://www.w3.org/2000/svg", "").contains(forbidden),
                    "{path}: {forbidden}"
                );
            }
            assert_eq!(page.text.matches("<script").count(), 1, "{path}");
            assert!(
                page.has(r#"<html lang="en">"#)
                    && page.has("Skip to the content")
                    && page.has("aria-current"),
                "{path}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_the_console_is_for_this_machine_only() {
    on_both(async |place| {
        let program = Program::serve(&place.db(), &[]).await;
        let anybody = Browser::new(&program.client);
        let page = anybody.see("/").await;
        assert!(page.has("open: no keys") && page.has("/audit"), "{}", page.text);
        // A foreign name that resolves to this address must not pass.
        for host in ["evil.example", "evil.example:7420", "localhost.evil.example"] {
            let answer = program.client.send(Method::GET, "/", &[("host", host)], "").await;
            assert_eq!(answer.status, 403, "{host}: {answer:?}");
        }
        let form = anybody.see("/new-definition").await.must_form("/new-definition");
        let text = ("text", "name: order\nsteps: [{ id: a, action: { worker: { queue: q } } }]");
        let without = anybody.post("/new-definition", &[text], &[]).await;
        assert_eq!(without.status, 403, "a form without its token: {without:?}");
        assert!(anybody.submit(&form, &[text]).await.has("version 1 waits to be applied"));
    })
    .await;
}
