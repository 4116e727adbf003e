//! Machines and their instances.

use serde_json::json;

use crate::console::stage::{PARCEL, expect, on_both_stores};

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_actions_follow_the_machine() {
    on_both_stores(async |stage| {
        stage.declare_parcel().await;
        for key in ["p-1", "a/b <c>"] {
            let path = format!(
                "/v1/lifecycles/parcel/{}/start",
                key.replace('/', "%2F").replace(' ', "%20").replace('<', "%3C").replace('>', "%3E")
            );
            expect(&stage.api.post(&path, &json!({ "correlation_id": "c-1" })).await, 202);
        }
        let operator = stage.as_role("operator").await;
        let machine = operator.see("/lifecycles/parcel").await;
        assert!(
            machine.has("packed: 2 · goes on, or fails") && machine.has("failed: given up"),
            "{}",
            machine.text
        );
        assert!(machine.has(r#"<a href="/lifecycles/parcel/a%2Fb%20%3Cc%3E">"#), "{}", machine.text);
        assert!(
            operator.see("/lifecycles/parcel/a%2Fb%20%3Cc%3E").await.has("<h1><code>a/b &#60;c&#62;</code>")
        );
        let place = "/lifecycles/parcel/p%2D1";
        let page = operator.see(place).await;
        let form = |what: &str| format!("{place}/{what}");
        let step = page.must_form(&form("transition"));
        assert!(
            page.has("<option>sent</option>") && !page.has("<option>delivered</option>"),
            "{}",
            page.text
        );
        let odd = operator.send(&step, &[("to", "delivered")]).await;
        assert_eq!(odd.status, 409, "{odd:?}");
        let page = operator.submit(&step, &[("to", "sent"), ("note", "by bike")]).await;
        assert!(page.has("packed → sent") && page.has("by bike") && page.has("operator"), "{}", page.text);
        assert_eq!(operator.send(&step, &[("to", "sent")]).await.status, 409, "it has moved on");
        let page = operator
            .submit(&page.must_form(&form("transition")), &[("to", "held"), ("data", r#"{"shelf":7}"#)])
            .await;
        assert!(
            page.form(&form("transition")).is_none() && page.form(&form("fail")).is_none(),
            "it waits for a start"
        );
        let client = stage.as_role("client").await;
        let page = client.see(place).await;
        client.submit(&page.must_form(&form("start")), &[]).await;
        let page = operator.see(place).await;
        assert!(page.has("start 2") && page.has("held → sent"), "{}", page.text);
        let fail = page.must_form(&form("fail"));
        assert_eq!(operator.send(&fail, &[("kind", "nobody_home"), ("message", "")]).await.status, 422);
        let page = operator.submit(&fail, &[("kind", "nobody_home"), ("message", "rang twice")]).await;
        assert!(page.has("operator: rang twice") && page.forms().is_empty(), "{}", page.text);
        let found = expect(&stage.api.get("/v1/lifecycles/parcel/p-1").await, 200);
        assert_eq!(
            (&found["state"], &found["last_error"]),
            (&json!("failed"), &json!("operator: rang twice"))
        );
        let log = expect(&stage.api.get("/v1/lifecycles/parcel/p-1/log").await, 200).to_string();
        assert!(log.contains(r#""by":"operator""#) && log.contains(r#""shelf":7"#), "{log}");
        let audited = stage.audited(2).await;
        assert_eq!(
            audited,
            [format!("operator POST {place}/fail: 303"), format!("operator POST {place}/fail: 422")]
        );
        assert!(operator.see("/lifecycles/parcel?state=failed").await.has("p-1"));
        assert!(!operator.see("/lifecycles/parcel?state=packed").await.has(">p-1<"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn staged_machine_is_applied_or_discarded_as_seen() {
    on_both_stores(async |stage| {
        stage.declare_parcel().await;
        let next = PARCEL.replace("nobody_home", "no_door");
        expect(&stage.put("/v1/lifecycles/parcel", &next).await, 201);
        let admin = stage.as_role("admin").await;
        let page = admin.see("/lifecycles/parcel").await;
        assert!(page.has("<ins>") && page.has("no_door"), "{}", page.text);
        let apply = page.must_form("/machines/parcel/apply");
        let page = admin.submit(&page.must_form("/machines/parcel/discard"), &[]).await;
        assert!(page.form("/machines/parcel/apply").is_none());
        assert_eq!(admin.send(&apply, &[]).await.status, 409, "nothing is staged any more");
        expect(&stage.put("/v1/lifecycles/parcel", &next).await, 201);
        let page = admin.see("/lifecycles/parcel").await;
        admin.submit(&page.must_form("/machines/parcel/apply"), &[]).await;
        let active = &expect(&stage.api.get("/v1/lifecycles/parcel").await, 200)["active"];
        assert_eq!(*active, 3, "the number of a discarded version is not used again");
        assert_eq!(stage.audited(1).await, ["admin POST /machines/parcel/apply: 303"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_in_states_of_old_versions_are_found() {
    on_both_stores(async |stage| {
        stage.declare_parcel().await;
        expect(&stage.api.post("/v1/lifecycles/parcel/p-1/start", &json!({})).await, 202);
        let next = PARCEL.replace("packed", "boxed");
        expect(&stage.put("/v1/lifecycles/parcel?apply=true", &next).await, 201);
        expect(&stage.api.post("/v1/lifecycles/parcel/p-2/start", &json!({})).await, 202);
        let viewer = stage.as_role("viewer").await;
        let page = viewer.see("/lifecycles/parcel").await;
        let of_earlier = page.text.split("Of earlier versions").nth(1);
        let of_earlier =
            of_earlier.unwrap_or_else(|| panic!("{}", page.text)).split("</table>").next().unwrap();
        assert!(of_earlier.contains("/lifecycles/parcel?state=packed\">packed</a>"), "{of_earlier}");
        assert!(of_earlier.contains("<td class=\"num\">1</td>"), "{of_earlier}");
        assert!(!of_earlier.contains("boxed"), "{of_earlier}");
        let row =
            page.text.split("/lifecycles/parcel/p%2D1\">").nth(1).unwrap().split("</tr>").next().unwrap();
        assert!(row.contains("▶") && !row.contains(">?<"), "as its own version says: {row}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_history_shows_the_newest_and_pages_the_rest() {
    on_both_stores(async |stage| {
        let machine = "{name: lamp, initial: off, states: [off, on, broken], terminal: [broken], edges: [[off, on], [on, off], [on, broken]]}";
        expect(&stage.put("/v1/lifecycles/lamp?apply=true", machine).await, 201);
        expect(&stage.api.post("/v1/lifecycles/lamp/l/start", &json!({})).await, 202);
        for turn in 0..502 {
            let to = if turn % 2 == 0 { "on" } else { "off" };
            let moved = json!({ "to": to, "data": { "turn": turn } });
            expect(&stage.api.post("/v1/lifecycles/lamp/l/transition", &moved).await, 200);
        }
        let viewer = stage.as_role("viewer").await;
        let place = "/lifecycles/lamp/l";
        let page = viewer.see(place).await;
        let turn = |turn: usize| format!("{{&#34;turn&#34;:{turn}}}");
        assert!(page.has(&turn(501)) && !page.has(&turn(1)), "the newest: {}", page.text);
        assert!(page.has("data-live-from"), "it is followed");
        let older = page.text.split("\" rel=\"prev\"").next().unwrap().rsplit("href=\"").next().unwrap();
        let older = viewer.see(&older.replace("&#38;", "&")).await;
        assert!(older.has(&turn(0)) && older.has("in off, version 1"), "{}", older.text);
        assert!(!older.has("data-live-from"), "what is over does not change");
        assert!(older.has("rel=\"next\"") && !older.has("rel=\"prev\""), "{}", older.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_history_values_are_shortened_with_a_link() {
    on_both_stores(async |stage| {
        stage.declare_parcel().await;
        let large = |end: &str| json!({ "text": format!("{}{end}", "x".repeat(60_000)) });
        let path = "/v1/lifecycles/parcel/p-1";
        expect(
            &stage.api.post(&format!("{path}/start"), &json!({ "input": large("input_ends") })).await,
            202,
        );
        let moved = json!({ "to": "sent", "data": large("data_ends") });
        expect(&stage.api.post(&format!("{path}/transition"), &moved).await, 200);
        let viewer = stage.as_role("viewer").await;
        let place = "/lifecycles/parcel/p%2D1";
        let page = viewer.see(place).await;
        assert!(page.text.len() < 40_000 && !page.has("_ends"), "{} bytes", page.text.len());
        for (which, end) in [("", "input_ends"), ("?event=1", "input_ends"), ("?event=2", "data_ends")] {
            let whole = format!("{place}/whole{which}");
            assert!(page.has(&format!("href=\"{whole}\"")), "{whole}: {}", page.text);
            assert!(viewer.see(&whole).await.has(end), "{whole}");
        }
        assert_eq!(viewer.get(&format!("{place}/whole?event=9")).await.status, 404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_lifecycle_is_abandoned_with_a_note() {
    on_both_stores(async |stage| {
        stage.declare_parcel().await;
        expect(&stage.api.post("/v1/lifecycles/parcel/p/start", &json!({})).await, 202);
        let operator = stage.as_role("operator").await;
        let (place, form) = ("/lifecycles/parcel/p", "/lifecycles/parcel/p/abandon");
        assert!(operator.see(place).await.form(form).is_none(), "it is in no pause state");
        for to in ["sent", "held"] {
            let moved = stage.api.post("/v1/lifecycles/parcel/p/transition", &json!({ "to": to })).await;
            expect(&moved, 200);
        }
        assert!(stage.as_role("client").await.see(place).await.form(form).is_none());
        let abandon = operator.see(place).await.must_form(form);
        assert_eq!(operator.send(&abandon, &[("note", " ")]).await.status, 422);
        let page = operator.submit(&abandon, &[("note", "the customer left")]).await;
        assert!(page.has("abandoned") && page.has("operator: the customer left"), "{}", page.text);
        assert!(page.forms().is_empty(), "nothing follows: {}", page.text);
        assert_eq!(operator.send(&abandon, &[("note", "again")]).await.status, 409);
        let found = expect(&stage.api.get("/v1/lifecycles/parcel/p").await, 200);
        assert_eq!((&found["state"], &found["abandoned"]), (&json!("held"), &json!(true)));
        assert!(operator.see("/lifecycles/parcel").await.has("abandoned"));
    })
    .await;
}
