//! Invalid requests are refused with the path of the error and a remedy, and change nothing.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_004::stage::{JSON, Open, expect, on_both_stores, refused, site};
use crate::support::{Answer, Program, program};

/// The places of what is wrong.
#[track_caller]
fn places(refused: &Answer) -> Vec<String> {
    assert_eq!((refused.status, refused.problem()), (422, "invalid-fields".to_owned()), "{refused:?}");
    let problems = refused.json()["problems"].as_array().unwrap().clone();
    assert!(problems.iter().all(|problem| problem["message"].as_str().unwrap().len() > 3), "{problems:?}");
    let mut places: Vec<_> =
        problems.iter().map(|problem| problem["place"].as_str().unwrap().to_owned()).collect();
    places.sort();
    places
}

async fn post(open: &Open, path: &str, body: impl Into<bytes::Bytes>) -> Answer {
    open.client.send(Method::POST, path, &JSON, body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_machine_is_refused_with_all_errors() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let many = json!({
            "name": "parcel",
            "initial": "packt",
            "states": ["packed", "sent", "packed", "de.livered"],
            "terminal": ["delivered"],
            "pause": { "sent": "nowhere" },
            "edges": [["packed", "sent"], ["sent", "sent"], ["sent", "moon"]],
            "can_fail": ["mars"],
            "error_kinds": ["ok"],
            "actions": { "sent": { "http": { "url": "ftp://x" }, "next": { "ok": "packed", "lost": "failed" } } },
            "stuck_after": { "packed": "soon" },
            "colour": "red",
        });
        let found = places(&open.put("/v1/lifecycles/parcel", many.to_string()).await);
        for place in [
            "initial", "states[2]", "states[3]", "terminal[0]", "pause.sent", "edges[1]", "edges[2]", "can_fail[0]",
            "error_kinds[0]", "actions.sent.http.url", "actions.sent.next.lost", "stuck_after.packed", "colour",
        ] {
            assert!(found.iter().any(|known| known.starts_with(place)), "{place} is not in {found:?}");
        }
        for (body, place) in [
            (json!({ "name": "other", "initial": "a", "states": ["a", "b"], "terminal": ["b"], "edges": [["a", "b"]] }), "name"),
            (json!({ "name": "parcel", "initial": "a", "states": "a" }), "states"),
            (json!({ "name": "parcel", "initial": 7, "states": ["a"] }), "initial"),
            (json!({ "name": "parcel", "initial": "a", "states": ["a"], "edges": [["a"]] }), "edges[0]"),
            (json!({ "name": "parcel", "initial": "a", "states": ["a"] }), "states[0]"),
        ] {
            let found = places(&open.put("/v1/lifecycles/parcel", body.to_string()).await);
            assert!(found.contains(&place.to_owned()), "{place}: {found:?}");
        }
        for body in ["", "null", "[]", "{", "\u{0}", "name: [", "7"] {
            let put = open.put("/v1/lifecycles/parcel", body).await;
            assert_eq!((put.status, put.problem().as_str()), (422, "invalid-fields"), "{body:?}: {put:?}");
        }
        refused(&open.client.get("/v1/lifecycles/parcel").await, 404, "machine-not-found", "no machine `parcel`");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_field_error_suggests_a_known_one() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let meant = "did you mean `site-provisioning`?";
        for (method, path, body) in [
            (Method::GET, "", ""),
            (Method::GET, "/s", ""),
            (Method::GET, "/s/log", ""),
            (Method::GET, "/s/events", ""),
            (Method::POST, "/s/start", "{}"),
            (Method::POST, "/s/transition", r#"{"to":"live"}"#),
            (Method::POST, "/s/fail", r#"{"error_kind":"internal","message":""}"#),
            (Method::POST, "/apply", ""),
            (Method::DELETE, "/staged", ""),
        ] {
            let path = format!("/v1/lifecycles/site-provisionin{path}");
            refused(&open.client.send(method, &path, &JSON, body).await, 404, "machine-not-found", meant);
        }
        for (method, what, body) in [
            (Method::GET, "", ""),
            (Method::GET, "/log", ""),
            (Method::GET, "/events", ""),
            (Method::POST, "/transition", r#"{"to":"live"}"#),
            (Method::POST, "/fail", r#"{"error_kind":"internal","message":""}"#),
        ] {
            let answer = open.client.send(method, &site("nobody", what), &JSON, body).await;
            refused(&answer, 404, "lifecycle-not-found", "start it first");
        }
        refused(
            &open.client.get("/v1/lifecycles/site-provisioning?version=9").await,
            404,
            "machine-not-found",
            "no version 9",
        );
        open.start("s", &json!({})).await;
        let unknown = open.transition("s", "source-resolving").await;
        refused(&unknown, 422, "invalid-fields", "did you mean `source_resolving`?");
        assert_eq!(places(&unknown), ["to"]);
        assert_eq!(places(&open.transition("s", "a\u{0}b").await), ["to"]);
        assert_eq!(open.look("s").await["seq"], 1, "nothing has changed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_other_shapes_are_refused_and_change_nothing() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.start("s", &json!({})).await;
        let long = "x".repeat(513);
        for (what, body, place) in [
            ("/start", json!({ "correlation_id": 7 }), "correlation_id"),
            ("/start", json!({ "correlation_id": "" }), "correlation_id"),
            ("/start", json!({ "correlation_id": long }), "correlation_id"),
            ("/start", json!({ "correlation_id": "a\u{0}" }), "correlation_id"),
            ("/start", json!({ "inptu": {} }), "inptu"),
            ("/start", json!([]), "body"),
            ("/transition", json!({}), "to"),
            ("/transition", json!({ "to": null }), "to"),
            ("/transition", json!({ "to": ["live"] }), "to"),
            ("/transition", json!({ "to": "live", "form": "here" }), "form"),
            ("/transition", json!(["live"]), "body"),
            ("/fail", json!({ "error_kind": "internal" }), "message"),
            ("/fail", json!({ "error_kind": "internal", "message": {} }), "message"),
            ("/fail", json!({ "error_kind": 3, "message": "" }), "error_kind"),
        ] {
            assert_eq!(
                places(&post(&open, &site("s", what), body.to_string()).await),
                [place],
                "{what} {body}"
            );
        }
        for (body, place) in [
            (json!({}), "site_id"),
            (json!({ "site_id": 7 }), "site_id"),
            (json!({ "site_id": "" }), "site_id"),
            (json!({ "site_id": "x".repeat(201) }), "site_id"),
            (json!({ "site_id": "a\u{0}" }), "site_id"),
            (json!({ "site_id": "a\nb" }), "site_id"),
            (json!({ "site_id": "a", "correlation_id": 7 }), "correlation_id"),
            (json!({ "site_id": "a", "correlation_id": "" }), "correlation_id"),
            (json!(["a"]), "body"),
        ] {
            assert_eq!(places(&post(&open, "/v1/sites", body.to_string()).await), [place], "{body}");
        }
        for what in ["/transition", "/fail", "/start"] {
            assert_eq!(post(&open, &site("s", what), "{").await.problem(), "bad-json");
            let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
            assert_eq!(post(&open, &site("s", what), deep).await.problem(), "json-too-deep");
            let giant = json!({ "to": "x".repeat(2 << 20) }).to_string();
            refused(&post(&open, &site("s", what), giant).await, 413, "too-large", "1048576");
            let typed = open
                .client
                .send(Method::POST, &site("s", what), &[("content-type", "text/plain")], "{}")
                .await;
            assert_eq!(typed.problem(), "unsupported-media-type");
        }
        let giant = open.put("/v1/lifecycles/parcel", " ".repeat(2 << 20)).await;
        refused(&giant, 413, "too-large", "1048576");
        refused(
            &open
                .client
                .send(Method::PUT, "/v1/lifecycles/parcel", &[("content-type", "image/png")], "x")
                .await,
            415,
            "unsupported-media-type",
            "yaml",
        );
        let after = open.look("s").await;
        assert_eq!((&after["seq"], &after["attempt"]), (&json!(1), &json!(1)));
        assert_eq!(
            open.get("/v1/lifecycles/site-provisioning?limit=10").await["items"].as_array().unwrap().len(),
            1
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_there_twice_is_refused_by_its_place() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for (body, place) in [
            (r#"{"site_id":"a","site_id":"b"}"#, "site_id"),
            (r#"{"site_id":"a","site_id":"a"}"#, "site_id"),
            (r#"{"site_id":"a","correlation_id":"c","correlation_id":null}"#, "correlation_id"),
            (r#"{"plan":1,"site_id":"a","plan":2}"#, "plan"),
        ] {
            let twice = post(&open, "/v1/sites", body).await;
            assert_eq!(places(&twice), [place], "{body}");
            assert!(twice.detail().contains("is there twice: give it once"), "{twice:?}");
        }
        assert_eq!(post(&open, "/v1/sites", r#"{"site_id":"a"} {}"#).await.problem(), "bad-json");
        assert_eq!(open.client.get("/v1/sites/a").await.status, 404, "nothing was begun");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_of_a_site_is_kept_unchanged() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let odd = r#"{"big":123456789012345678901234567890,"far":1e300,"list":[1.0, -0],"tax":1.10}"#;
        let body = format!(r#"{{"site_id":"s",{}"#, &odd[1..]);
        expect(&post(&open, "/v1/sites", body).await, 202);
        for path in [site("s", ""), site("s", "/log")] {
            let text = String::from_utf8(open.client.get(&path).await.body.to_vec()).unwrap();
            assert!(text.contains(odd), "{path}: {text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_seen_is_refused_wherever_it_is_named() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for key in
            ["\u{200b}", "a\u{202e}b", "\u{feff}a", "\u{a0}", " a", "a ", "a\u{3000}b", "\u{ad}", "\u{1160}"]
        {
            assert_eq!(
                places(&post(&open, "/v1/sites", json!({ "site_id": key }).to_string()).await),
                ["site_id"]
            );
            let escaped = key.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
            for (method, path) in [
                (Method::POST, site(&escaped, "/start")),
                (Method::GET, site(&escaped, "")),
                (Method::GET, format!("/v1/sites/{escaped}")),
            ] {
                let answer = open.client.send(method, &path, &JSON, "").await;
                assert_eq!(
                    (answer.status, answer.problem().as_str()),
                    (400, "bad-id"),
                    "{key:?}: {answer:?}"
                );
            }
        }
        expect(&post(&open, &site("docs%20of%20ada", "/start"), "").await, 202);
        expect(&post(&open, "/v1/sites", json!({ "site_id": "Größe 日本 🧵" }).to_string()).await, 202);
        assert_eq!(open.get("/v1/lifecycles/site-provisioning").await["counts"], json!({ "requested": 2 }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_parameters_that_cannot_be_are_refused() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        for key in ["%00", "a%0Ab", "%FF", "%7F", &"x".repeat(201), &"%C3%BC".repeat(101)] {
            for (method, what) in
                [(Method::GET, ""), (Method::GET, "/log"), (Method::GET, "/events"), (Method::POST, "/start")]
            {
                assert_eq!(
                    open.client.send(method, &site(key, what), &JSON, "").await.problem(),
                    "bad-id",
                    "{key}"
                );
            }
            assert_eq!(open.client.get(&format!("/v1/sites/{key}")).await.problem(), "bad-id");
        }
        expect(&post(&open, &site(&"x".repeat(200), "/start"), "").await, 202);
        expect(&post(&open, &site(&"%C3%BC".repeat(100), "/start"), "").await, 202);
        for machine in ["%00", "a%20b", "%2e%2e%2f", "\u{60}", &"x".repeat(129)] {
            let path = format!("/v1/lifecycles/{}", machine.replace('\u{60}', "%60"));
            for path in [path.clone(), format!("{path}/k")] {
                assert_eq!(open.client.get(&path).await.problem(), "machine-not-found", "{path}");
            }
            assert_eq!(open.put(&path, "{}").await.problem(), "machine-not-found");
        }
        for query in [
            "?limit=0",
            "?limit=501",
            "?limit=x",
            "?cursor=7",
            "?state=",
            "?state=%00",
            "?version=0",
            "?colour=red",
            "?limit=1&limit=2",
        ] {
            let path = format!("/v1/lifecycles/site-provisioning{query}");
            assert_eq!(open.client.get(&path).await.problem(), "bad-query", "{path}");
        }
        let nothing = open.get("/v1/lifecycles/site-provisioning?correlation_id=%00").await;
        assert_eq!(nothing["items"], json!([]));
        open.start("s", &json!({})).await;
        for query in ["?limit=0", "?cursor=-1", "?after=1"] {
            assert_eq!(open.client.get(&site("s", &format!("/log{query}"))).await.problem(), "bad-query");
        }
        let page = open.get(&site("s", "/log?limit=1&cursor=1")).await;
        assert_eq!((&page["items"], &page["next_cursor"]), (&json!([]), &Value::Null));
        for (method, path) in [
            (Method::DELETE, site("s", "")),
            (Method::GET, site("s", "/start")),
            (Method::GET, "/v1/sites".to_owned()),
        ] {
            assert_eq!(open.client.send(method, &path, &[], "").await.problem(), "method-not-allowed");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("backstitch.toml");
    for (settings, words) in [
        (
            "[lifecycle.sites]\nresolve_source = \"http://a/\"",
            &["create_project is missing", "create_hook is missing", "or none"][..],
        ),
        (
            "[lifecycle.sites]\nresolve_source = \"a\"\ncreate_project = \"ftp://a/\"\ncreate_hook = \"http://a/\"",
            &["resolve_source", "create_project", "http"],
        ),
        ("[lifecycle]\nlease = \"1ms\"", &["lifecycle.lease", "1s"]),
        ("[lifecycle]\nconcurrency = -1", &[":2:15:", "-1"]),
        ("[lifecycle]\nworkers = 3", &["workers"]),
    ] {
        std::fs::write(&config, settings).unwrap();
        let arguments = ["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let said = program::output_of(&arguments).await;
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        let told = String::from_utf8(said.stderr).unwrap();
        assert!(words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
    }
    let db = format!("sqlite:{}", folder.path().join("b.db").display());
    Program::serve(&db, &[("BACKSTITCH_LIFECYCLE_LEASE", "1s")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifecycle_is_no_saga() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let id = open.start("s", &json!({})).await["id"].as_str().unwrap().to_owned();
        for path in ["", "/log", "/events"] {
            let answer = open.client.get(&format!("/v1/sagas/{id}{path}")).await;
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
        }
        let answer = open.client.post(&format!("/v1/sagas/{id}/cancel"), &json!({})).await;
        assert_eq!(answer.status, 404, "{answer:?}");
    })
    .await;
}
