//! Actions on sagas: each is in the log with its user, and in the audit.

use serde_json::json;

use crate::console::stage::{expect, on_both_stores};

#[tokio::test(flavor = "multi_thread")]
async fn a_saga_is_paused_resumed_and_cancelled_with_who_did_it() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let place = format!("/sagas/{saga}");
        let (client, operator) = (stage.as_role("client").await, stage.as_role("operator").await);
        let page = client.see(&place).await;
        assert!(page.form(&format!("{place}/pause")).is_none(), "a client may cancel and no more");
        assert!(
            page.has("What would be undone if it were cancelled now") && page.has("<li>first</li>"),
            "{}",
            page.text
        );
        assert!(
            page.has("<svg") && page.has("first: succeeded") && page.has("wait: "),
            "its steps are drawn"
        );

        let page = operator.see(&place).await;
        let page =
            operator.submit(&page.must_form(&format!("{place}/pause")), &[("note", "look first")]).await;
        assert!(page.has("starts nothing new until it is resumed"), "{}", page.text);
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["paused"] == true).await;
        let page = operator.see(&place).await;
        operator.submit(&page.must_form(&format!("{place}/resume")), &[("note", "go on")]).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["paused"] == false).await;
        let page = client.see(&place).await;
        client.submit(&page.must_form(&format!("{place}/cancel")), &[("note", "not needed")]).await;
        for note in ["operator: look first", "operator: go on", "client: not needed"] {
            stage.logged(&saga, note).await;
        }
        let expected = ["cancel", "resume", "pause"].map(|what| {
            let who = if what == "cancel" { "client" } else { "operator" };
            format!("{who} POST {place}/{what}: 303")
        });
        assert_eq!(stage.audited(3).await, expected);
        let audit = stage.as_role("admin").await.see("/audit").await;
        assert!(audit.has("operator (key 4)") && audit.has("client (key 2)"), "{}", audit.text);
        assert!(audit.has(&format!("POST {place}/cancel")) && audit.has("127.0.0.1:"), "{}", audit.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_is_stuck_is_decided_about_with_a_note() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        let operator = stage.as_role("operator").await;
        let saga = stage.stuck("order").await;
        let place = format!("/sagas/{saga}");
        let resolve = format!("{place}/steps/first/resolve");
        assert!(operator.see("/").await.has(&saga), "the overview says that it waits for somebody");
        let page = operator.see(&place).await;
        assert!(page.has("Rollback workbench") && page.has("it stays"), "{}", page.text);
        let form = page.must_form(&resolve);
        let without = operator.send(&form, &[("action", "done"), ("note", " ")]).await;
        assert_eq!(without.status, 422, "{without:?}");
        let odd = operator.send(&form, &[("action", "forget"), ("note", "x")]).await;
        assert_eq!(odd.status, 422, "{odd:?}");
        let page = operator.submit(&form, &[("action", "retry"), ("note", "the bank is back")]).await;
        assert!(page.has("The rollback goes on."), "{}", page.text);
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["status"] == "failed").await;
        let form = operator.see(&place).await.must_form(&resolve);
        operator.submit(&form, &[("action", "done"), ("note", "refunded by hand")]).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["status"] == "compensated").await;
        let log = stage.log(&saga).await;
        assert!(
            log.contains("operator: the bank is back") && log.contains("operator: refunded by hand"),
            "{log}"
        );
        assert_eq!(stage.services.heard("undo-first"), 2, "once more, and then by hand");
        let again = operator.send(&form, &[("action", "skip"), ("note", "again")]).await;
        assert_eq!(again.status, 409, "{again:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_actions_need_a_preview_with_a_count() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let mut sagas = Vec::new();
        for _ in 0..3 {
            sagas.push(stage.start_waiting("slow").await);
        }
        let operator = stage.as_role("operator").await;
        let list = operator.see("/sagas?definition=slow").await;
        let preview = "/sagas/bulk?definition=slow&action=cancel";
        assert!(list.has(&preview.replace('&', "&#38;")), "{}", list.text);
        let page = operator.see(preview).await;
        assert!(page.has("Cancel 3 sagas"), "{}", page.text);
        let form = page.must_form("/sagas/bulk");
        // A later saga was not in the preview.
        let later = stage.start_waiting("slow").await;
        let without = operator.send(&form, &[("note", "")]).await;
        assert_eq!(without.status, 422);
        let done = operator.submit(&form, &[("note", "the shop closes")]).await;
        assert!(done.has("<h1>3 will be rolled back</h1>"), "{}", done.text);
        for saga in &sagas {
            stage.logged(saga, "operator: the shop closes").await;
        }
        assert!(!stage.log(&later).await.contains("the shop closes"));
        let twice = operator.submit(&form, &[("note", "again")]).await;
        assert!(
            twice.has("<h1>3 will be rolled back</h1>"),
            "what came of it the first time: {}",
            twice.text
        );
        for saga in &sagas {
            assert!(!stage.log(saga).await.contains("again"));
        }
        assert_eq!(stage.audited(1).await, ["operator POST /sagas/bulk: 303"]);

        stage.declare("order").await;
        let stuck = [stage.stuck("order").await, stage.stuck("order").await];
        let page = operator.see("/sagas/bulk?definition=order&action=resolve").await;
        assert!(page.has("Resolve 2 sagas"), "{}", page.text);
        let form = page.must_form("/sagas/bulk");
        let more = stage.stuck("order").await;
        let done = operator.submit(&form, &[("how", "skip"), ("note", "written off")]).await;
        assert!(done.has("<h1>2 go on</h1>"), "{}", done.text);
        for saga in &stuck {
            stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["status"] == "compensated").await;
        }
        stage.until(&format!("/v1/sagas/{more}"), |saga| saga["status"] == "failed").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_resolution_covers_every_stuck_step() {
    on_both_stores(async |stage| {
        stage.declare_stuck_twice("order").await;
        let saga = stage.stuck_twice("order").await;
        let operator = stage.as_role("operator").await;
        let form = operator.see("/sagas/bulk?definition=order&action=resolve").await.must_form("/sagas/bulk");
        let done = operator.submit(&form, &[("how", "skip"), ("note", "written off")]).await;
        assert!(done.has("<h1>1 goes on</h1>") && !done.has("not decided"), "{}", done.text);
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["status"] == "compensated").await;
        let log = stage.log(&saga).await;
        assert_eq!(log.matches("operator: written off").count(), 2, "each once: {log}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_as_long_as_its_field_is_kept_whatever_its_letters_are() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let saga = stage.start_waiting("slow").await;
        let operator = stage.as_role("operator").await;
        let place = format!("/sagas/{saga}");
        let page = operator.see(&place).await;
        let field = page.text.split("name=\"note\" maxlength=\"").nth(1).unwrap();
        let longest: usize = field.split('"').next().unwrap().parse().unwrap();
        let note = "語".repeat(longest);
        operator.submit(&page.must_form(&format!("{place}/pause")), &[("note", &note)]).await;
        stage.logged(&saga, &note).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_cancel_distinguishes_ids_with_spaces() {
    on_both_stores(async |stage| {
        stage.declare_waiting("slow").await;
        let mut sagas = Vec::new();
        for id in ["c", " c ", " c "] {
            sagas.push(stage.api.start(&json!({ "definition": "slow", "correlation_id": id })).await);
        }
        let operator = stage.as_role("operator").await;
        let page = operator.see("/sagas/bulk?correlation_id=+c+&action=cancel").await;
        assert!(page.has("Cancel 2 sagas"), "{}", page.text);
        let done = operator.submit(&page.must_form("/sagas/bulk"), &[("note", "only those")]).await;
        assert!(done.has("<h1>2 will be rolled back</h1>"), "{}", done.text);
        for saga in &sagas[1..] {
            stage.logged(saga, "operator: only those").await;
        }
        assert!(!stage.log(&sagas[0]).await.contains("only those"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_filter_is_ignored_and_too_many_are_refused() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        stage.api.start(&json!({ "definition": "order", "attributes": { "tenant": "acme" } })).await;
        let viewer = stage.as_role("viewer").await;
        let rows = |text: &str| text.matches("<tr><td><a href=\"/sagas/").count();
        let emptied =
            ["/sagas?attr.tenant=", "/sagas?attr.tenant=%20&attribute=", "/sagas?attribute=tenant%3D"];
        for path in emptied {
            assert_eq!(rows(&viewer.see(path).await.text), 1, "{path}");
        }
        assert_eq!(rows(&viewer.see("/sagas?attr.tenant=other").await.text), 0);
        let many: Vec<String> = (0..9).map(|number| format!("attr.a{number}=x")).collect();
        let operator = stage.as_role("operator").await;
        for path in ["/sagas", "/sagas/bulk"] {
            let refused = operator.get(&format!("{path}?{}", many.join("&"))).await;
            assert_eq!(refused.status, 400, "{path}: {refused:?}");
            assert!(refused.has("8"), "{}", refused.text);
        }
        stage.declare_waiting("slow").await;
        stage.start_waiting("slow").await;
        let form = operator.see("/sagas/bulk?action=cancel").await.must_form("/sagas/bulk");
        let carried = format!("/sagas?{}", many.join("&"));
        let refused = operator.send(&form, &[("note", "x"), ("wanted", &carried)]).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sagas_are_listed_by_filter_in_pages() {
    on_both_stores(async |stage| {
        stage.declare("order").await;
        for number in 0..120 {
            let tenant = if number % 2 == 0 { "even" } else { "odd" };
            let body = json!({ "definition": "order", "correlation_id": format!("c-{number}"), "attributes": { "tenant": tenant } });
            stage.api.start(&body).await;
        }
        let viewer = stage.as_role("viewer").await;
        let rows = |text: &str| text.matches("<tr><td><a href=\"/sagas/").count();
        let mut path = "/sagas?attribute=tenant%3Deven".to_owned();
        let mut sizes = Vec::new();
        loop {
            let page = viewer.see(&path).await;
            sizes.push(rows(&page.text));
            let Some(next) = page.text.split("\" rel=\"next\"").next().filter(|_| page.has("rel=\"next\"")) else { break };
            path = next.rsplit("href=\"").next().unwrap().replace("&#38;", "&");
            assert!(path.contains("attr.tenant=even"), "{path}");
        }
        assert_eq!(sizes, [50, 10]);
        assert_eq!(rows(&viewer.see("/sagas?correlation_id=c-7").await.text), 1);
        assert_eq!(rows(&viewer.see("/sagas?until=2020-01-01T00:00:00Z").await.text), 0);
        assert_eq!(rows(&viewer.see("/sagas?since=2020-01-01T00:00:00Z&status=&definition=order").await.text), 50);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_log_shows_the_newest_and_pages_the_rest() {
    on_both_stores(async |stage| {
        let retry = json!({ "count": 600, "delay": "1ms", "backoff": "fixed" });
        let step = json!({ "id": "first", "retry": retry, "action": { "http": { "url": stage.services.url("first") } } });
        let saga = json!({ "name": "patient", "steps": [step] }).to_string();
        expect(&stage.put("/v1/definitions/patient?apply=true", &saga).await, 201);
        stage.services.answer("first", 503, "later");
        let saga = stage.api.start(&json!({ "definition": "patient" })).await;
        stage.until(&format!("/v1/sagas/{saga}"), |saga| saga["status"] == "compensated").await;
        let viewer = stage.as_role("viewer").await;
        let place = format!("/sagas/{saga}");
        let page = viewer.see(&place).await;
        assert!(page.has("<code>saga.compensated</code>") && !page.has("<code>saga.started</code>"), "{}", page.text);
        assert!(page.has("attempt 601, failed") && !page.has(", under way"), "what has ended is drawn as ended");
        let older = page.text.split("\" rel=\"prev\"").next().unwrap().rsplit("href=\"").next().unwrap();
        let older = viewer.see(&older.replace("&#38;", "&")).await;
        assert!(older.has("<code>saga.started</code>") && !older.has("<code>saga.compensated</code>"));
        let axis = |page: &crate::console::browser::Page| {
            let end = page.text.split("text-anchor=\"end\">").nth(1).unwrap();
            end.split('<').next().unwrap().to_owned()
        };
        let before = axis(&page);
        assert_eq!(axis(&viewer.see(&place).await), before, "the axis ends where the saga did");
        assert_eq!(viewer.get(&format!("{place}?after=x")).await.status, 400);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_saga_values_are_shortened_with_a_link() {
    on_both_stores(async |stage| {
        let text = |end: &str| json!({ "text": format!("{}{end}", "x".repeat(100_000)) });
        stage.services.answer("first", 200, &text("first_ends").to_string());
        stage.services.answer("second", 200, &text("second_ends").to_string());
        stage.declare("order").await;
        let body = json!({ "definition": "order", "input": text("input_ends") });
        let saga = stage.api.run(&body).await;
        assert_eq!(saga["status"], "succeeded", "{saga}");
        let viewer = stage.as_role("viewer").await;
        let place = format!("/sagas/{}", saga["id"].as_str().unwrap());
        let page = viewer.see(&place).await;
        assert!(page.text.len() < 60_000 && !page.has("_ends"), "{} bytes", page.text.len());
        let log = expect(&stage.api.get(&format!("/v1{place}/log?limit=1000")).await, 200);
        let succeeded =
            log["items"].as_array().unwrap().iter().find(|event| event["type"] == "step.succeeded");
        let event = format!("?event={}", succeeded.unwrap()["seq"]);
        for (which, end) in [
            ("", "input_ends"),
            ("?step=first", "first_ends"),
            ("?step=second", "second_ends"),
            (&event, "first_ends"),
        ] {
            let whole = format!("{place}/whole{which}");
            assert!(page.has(&format!("href=\"{whole}\"")), "{whole}: {}", page.text);
            assert!(viewer.see(&whole).await.has(end), "{whole}");
        }
        for none in ["?event=999", "?step=third"] {
            assert_eq!(viewer.get(&format!("{place}/whole{none}")).await.status, 404, "{none}");
        }
        assert_eq!(viewer.get(&format!("{place}/whole?event=1&step=first")).await.status, 400);
    })
    .await;
}
