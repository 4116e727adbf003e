//! Only the console's own forms are accepted, and only if their page is up to date.

use crate::console::stage::on_both_stores;

/// Fields or headers.
type Pairs<'a> = &'a [(&'a str, &'a str)];

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_site_or_without_its_token_does_nothing() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let (operator, other) = (stage.as_role("operator").await, stage.as_role("operator").await);
        let place = format!("/sagas/{saga}");
        let pause = format!("{place}/pause");
        let form = operator.see(&place).await.must_form(&pause);
        let foreign = other.see(&place).await.must_form(&pause);
        let field = |form: &crate::console::browser::Form, name: &str| {
            form.fields.iter().find(|(known, _)| known == name).unwrap().1.clone()
        };
        let (token, seen) = (field(&form, "form_token"), field(&form, "seen"));
        let of_another = field(&foreign, "form_token");
        assert_ne!(token, of_another, "each session has its own");
        let host = stage.program.client.address.to_string();
        let tries: [(Pairs<'_>, Pairs<'_>); 6] = [
            (&[("seen", &seen)], &[]),
            (&[("seen", &seen), ("form_token", "")], &[]),
            (&[("seen", &seen), ("form_token", &of_another)], &[]),
            (&[("seen", &seen), ("form_token", &token)], &[("origin", "https://evil.example")]),
            (&[("seen", &seen), ("form_token", &token)], &[("origin", "null")]),
            (&[("seen", &seen), ("form_token", &token)], &[("sec-fetch-site", "cross-site")]),
        ];
        for (fields, headers) in tries {
            let page = operator.post(&pause, fields, headers).await;
            assert_eq!(page.status, 403, "{fields:?} {headers:?}: {page:?}");
            assert!(page.has("The form was not sent by the console"), "{}", page.text);
        }
        // A key in the header is none in a browser.
        let keyed = stage.program.client.with_key(stage.key("operator"));
        let page =
            crate::console::browser::Browser::new(&keyed).post(&pause, &[("form_token", &token)], &[]).await;
        assert_eq!(page.status, 401, "{page:?}");
        assert!(!stage.log(&saga).await.contains("saga.paused"));
        let audited = stage.audited(20).await;
        assert!(!audited.iter().any(|entry| entry.contains(&pause)), "nothing was let through: {audited:?}");

        let own = format!("http://{host}");
        let fields = [("seen", seen.as_str()), ("form_token", &token)];
        let page =
            operator.post(&pause, &fields, &[("origin", &own), ("sec-fetch-site", "same-origin")]).await;
        assert_eq!(page.status, 303, "{page:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_on_an_outdated_state_is_refused() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let operator = stage.as_role("operator").await;
        let place = format!("/sagas/{saga}");
        let page = operator.see(&place).await;
        let (cancel, pause) =
            (page.must_form(&format!("{place}/cancel")), page.must_form(&format!("{place}/pause")));
        operator.submit(&pause, &[("note", "first")]).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["paused"] == true).await;
        for form in [&cancel, &pause] {
            let stale = operator.send(form, &[("note", "second")]).await;
            assert_eq!(stale.status, 409, "{stale:?}");
            assert!(
                stale.has("What the page showed has changed") && stale.has("nothing was done"),
                "{}",
                stale.text
            );
        }
        let log = stage.log(&saga).await;
        assert_eq!(log.matches("saga.paused").count(), 1, "a form that is sent twice does it once: {log}");
        assert!(!log.contains("second") && !log.contains("saga.compensating"), "{log}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn change_that_looks_the_same_is_still_detected() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        let operator = stage.as_role("operator").await;
        let saga = stage.stuck("order").await;
        let place = format!("/sagas/{saga}");
        let form = operator.see(&place).await.must_form(&format!("{place}/steps/first/resolve"));
        let retry = [("action", "retry"), ("note", "the bank is back")];
        operator.submit(&form, &retry).await;
        stage
            .until(&format!("/v1/sagas/{saga}/log?limit=1000"), |log| {
                log.to_string().matches("saga.failed").count() == 2
            })
            .await;
        let stale = operator.send(&form, &retry).await;
        assert_eq!(stale.status, 409, "it has failed again since: {stale:?}");
        assert_eq!(stage.services.heard("undo-first"), 2, "at first, and once more");

        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let place = format!("/sagas/{saga}");
        let pause = operator.see(&place).await.must_form(&format!("{place}/pause"));
        operator.submit(&pause, &[]).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["paused"] == true).await;
        let resume = operator.see(&place).await.must_form(&format!("{place}/resume"));
        operator.submit(&resume, &[]).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["paused"] == false).await;
        let stale = operator.send(&pause, &[]).await;
        assert_eq!(stale.status, 409, "it was resumed since: {stale:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_form_result_can_be_reloaded_without_repeating() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        let operator = stage.as_role("operator").await;
        let saga = stage.stuck("order").await;
        let form = operator.see("/sagas/bulk?definition=order&action=resolve").await.must_form("/sagas/bulk");
        let retry = [("how", "retry"), ("note", "the bank is back")];
        let sent = operator.send(&form, &retry).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        stage
            .until(&format!("/v1/sagas/{saga}/log?limit=1000"), |log| {
                log.to_string().matches("saga.failed").count() == 2
            })
            .await;
        for _ in 0..2 {
            assert!(operator.see(&sent.location()).await.has("<h1>1 goes on</h1>"));
        }
        let twice = operator.send(&form, &retry).await;
        assert_eq!((twice.status, twice.location()), (303, sent.location()));
        // Without what says that it is the same form: it has failed again since it was shown.
        let stale = operator
            .send(&form, &[retry[0], retry[1], ("once", "0190b6f2-7e1a-7000-8000-000000000000")])
            .await;
        assert!(operator.see(&stale.location()).await.has("<h1>0 go on</h1>"), "{stale:?}");
        assert_eq!(stage.services.heard("undo-first"), 2, "at first, and once more");
        let viewer = stage.as_role("viewer").await;
        assert_eq!(viewer.get(&sent.location()).await.status, 404, "it is for whoever did it");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_shown_as_pages() {
    on_both_stores(async |stage| {
        let admin = stage.as_role("admin").await;
        for (path, status) in [
            ("/sagas/0190b6f2-7e1a-7000-8000-000000000000", 404),
            ("/sagas/x", 400),
            ("/definitions/none", 404),
            ("/definitions/%00", 404),
            ("/webhooks/subscriptions/99", 404),
            ("/webhooks/subscriptions/x", 400),
            ("/webhooks/deliveries/99", 404),
            ("/outbox/99", 404),
            ("/lifecycles/none", 404),
            ("/lifecycles/none/k", 404),
            ("/nowhere", 404),
            ("/sagas?status=odd", 400),
            ("/sagas?since=yesterday", 400),
            ("/sagas?attribute=tenant", 400),
            ("/sagas?cursor=1", 400),
            ("/sagas?colour=red", 400),
            ("/webhooks/deliveries?status=odd", 400),
            ("/webhooks/deliveries?event=x", 400),
            ("/webhooks/dead-letters?since=x", 400),
            ("/webhooks/dead-letters?subscription=-1", 400),
            ("/webhooks?cursor=x", 400),
            ("/outbox?status=odd", 400),
            ("/outbox?cursor=0", 400),
            ("/alerts?cursor=x", 400),
            ("/audit?cursor=0", 400),
            ("/lifecycle-dead-letters?cursor=x", 400),
            ("/definitions?colour=red", 400),
            ("/find?id=%3Cb%3E", 404),
        ] {
            let page = admin.get(path).await;
            assert_eq!(page.status, status, "{path}: {page:?}");
            assert!(page.has("<h1>") && page.has("role=\"alert\""), "{path}: {}", page.text);
            assert_eq!(page.answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
        }
    })
    .await;
}
