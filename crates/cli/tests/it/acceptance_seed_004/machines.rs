//! Declared machines: staged, applied, discarded, shown, and used like the built-in one.

use hyper::Method;
use serde_json::{Value, json};

use crate::acceptance_seed_004::stage::{Open, expect, on_both_stores, refused};
use crate::support::within;

pub(crate) fn parcel() -> Value {
    json!({
        "name": "parcel",
        "title": "A parcel on its way",
        "initial": "packed",
        "states": ["packed", "sent", "held", "delivered"],
        "terminal": ["delivered"],
        "pause": { "held": "sent" },
        "edges": [["packed", "sent"], ["sent", "held"], ["sent", "delivered"]],
        "can_fail": ["packed", "sent"],
        "error_kinds": ["nobody_home"],
    })
}

const MACHINE: &str = "/v1/lifecycles/parcel";

/// The same with more, or other, members.
fn with(more: Value) -> Value {
    let mut machine = parcel();
    let Value::Object(more) = more else { panic!("{more} names nothing") };
    machine.as_object_mut().unwrap().extend(more);
    machine
}

async fn post(open: &Open, path: &str) -> crate::support::Answer {
    open.client.send(Method::POST, path, &[], "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_staged_applied_and_discarded() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let staged = expect(&open.put(MACHINE, parcel().to_string()).await, 201);
        assert_eq!((&staged["name"], &staged["version"], &staged["standing"]), (&json!("parcel"), &json!(1), &json!("staged")));
        assert!(staged["diagram"].as_str().unwrap().starts_with("stateDiagram-v2\n    [*] --> packed\n"), "{staged}");
        refused(&post(&open, &format!("{MACHINE}/p/start")).await, 409, "nothing-applied", "apply it first");
        assert_eq!(expect(&open.put(MACHINE, parcel().to_string()).await, 200)["version"], 1, "the same again");

        assert_eq!(post(&open, &format!("{MACHINE}/apply?version=2")).await.problem(), "raced");
        let applied = expect(&post(&open, &format!("{MACHINE}/apply?version=1")).await, 200);
        assert_eq!((&applied["version"], &applied["versions"][0]["in_flight"]), (&json!(1), &json!(0)));
        refused(&post(&open, &format!("{MACHINE}/apply")).await, 409, "nothing-staged", "declare a version first");
        let again = expect(&open.put(&format!("{MACHINE}?apply=true"), parcel().to_string()).await, 200);
        assert_eq!((&again["version"], &again["standing"]), (&json!(1), &json!("active")));

        expect(&post(&open, &format!("{MACHINE}/p/start")).await, 202);
        let other = with(json!({ "edges": [["packed", "sent"], ["sent", "held"], ["sent", "delivered"], ["packed", "delivered"]] }));
        assert_eq!(expect(&open.put(MACHINE, other.to_string()).await, 201)["version"], 2);
        let discard = async || open.client.send(Method::DELETE, &format!("{MACHINE}/staged"), &[], "").await;
        let replaced = open.client.send(Method::DELETE, &format!("{MACHINE}/staged?version=1"), &[], "").await;
        refused(&replaced, 409, "raced", "version 2 of `parcel` is staged, not version 1");
        assert_eq!(replaced.json()["staged"], 2);
        assert_eq!(expect(&discard().await, 200), json!({ "name": "parcel", "discarded": 2 }));
        assert_eq!(discard().await.problem(), "nothing-staged");

        assert_eq!(open.declare(&with(json!({ "title": "Another" }))).await["version"], 3);
        let second = expect(&post(&open, &format!("{MACHINE}/q/start")).await, 202);
        assert_eq!((&second["version"], &open.get(&format!("{MACHINE}/p")).await["version"]), (&json!(3), &json!(1)));
        let shown = open.get(MACHINE).await;
        assert_eq!((&shown["active"], &shown["staged"], &shown["counts"]), (&json!(3), &json!(null), &json!({ "packed": 2 })));
        let flights: Vec<_> = shown["versions"].as_array().unwrap().iter().map(|it| (it["version"].as_u64().unwrap(), it["in_flight"].as_u64().unwrap())).collect();
        assert_eq!(flights, [(1, 1), (2, 0), (3, 1)]);
        assert_eq!(shown["definition"], with(json!({ "title": "Another" })));
        assert_eq!(open.get(&format!("{MACHINE}?version=1")).await["definition"], parcel());
        assert!(shown.get("items").is_none(), "nobody asked for them");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_may_be_written_in_yaml() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let yaml =
            "name: door\ninitial: open\nstates: [open, shut]\nterminal: [shut]\nedges: [[open, shut]]\n";
        for headers in [&[][..], &[("content-type", "application/yaml")], &[("content-type", "text/yaml")]] {
            let put = open.client.send(Method::PUT, "/v1/lifecycles/door?apply=true", headers, yaml).await;
            assert!(matches!(put.status, 200 | 201), "{put:?}");
        }
        let listed = open.get("/v1/lifecycles").await;
        let names: Vec<_> =
            listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["door", "site-provisioning"]);
        let first = open.get("/v1/lifecycles?limit=1").await;
        assert_eq!((&first["items"][0]["name"], &first["next_cursor"]), (&json!("door"), &json!("door")));
        let second = open.get("/v1/lifecycles?limit=1&cursor=door").await;
        assert_eq!(
            (&second["items"][0]["name"], &second["next_cursor"]),
            (&json!("site-provisioning"), &json!(null))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_of_sites_is_built_in_and_cannot_be_declared() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let path = "/v1/lifecycles/site-provisioning";
        let shown = open.get(path).await;
        assert_eq!((&shown["active"], &shown["staged"]), (&json!(1), &json!(null)));
        let diagram = shown["diagram"].as_str().unwrap();
        for line in [
            "[*] --> requested",
            "source_resolving --> awaiting_github",
            "awaiting_github --> source_resolving : start",
            "hook_created --> live",
            "vercel_creating --> failed : fail",
            "live --> [*]",
            "failed --> [*]",
        ] {
            assert!(diagram.lines().any(|found| found.trim() == line), "{line}: {diagram}");
        }
        let mine = with(json!({ "name": "site-provisioning" }));
        refused(&open.put(path, mine.to_string()).await, 409, "name-taken", "built in");
        refused(&post(&open, &format!("{path}/apply")).await, 409, "name-taken", "built in");
        let discarded = open.client.send(Method::DELETE, &format!("{path}/staged"), &[], "").await;
        refused(&discarded, 409, "name-taken", "built in");
        drop(open);
        let driven = stage.open_driven(&[]).await;
        assert_eq!(driven.get(path).await["active"], 2, "other services are another version");
        driven.kill().await;
        let driven = stage.open_driven(&[]).await;
        assert_eq!(driven.get(path).await["active"], 2, "the same are the same");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifecycles_are_listed_by_state_a_page_at_a_time() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        open.declare(&parcel()).await;
        for nth in 0..5 {
            expect(&post(&open, &format!("{MACHINE}/p-{nth}/start")).await, 202);
        }
        for nth in [1, 3] {
            expect(
                &open.client.post(&format!("{MACHINE}/p-{nth}/transition"), &json!({ "to": "sent" })).await,
                200,
            );
        }
        let keys = |page: &Value| -> Vec<String> {
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["key"].as_str().unwrap().to_owned())
                .collect()
        };
        let sent = open.get(&format!("{MACHINE}?state=sent")).await;
        assert_eq!(
            (keys(&sent), &sent["next_cursor"]),
            (vec!["p-3".to_owned(), "p-1".to_owned()], &json!(null))
        );
        assert_eq!(open.get(MACHINE).await["counts"], json!({ "packed": 3, "sent": 2 }));
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = open.get(&format!("{MACHINE}?limit=2{cursor}")).await;
            assert!(page["items"].as_array().unwrap().len() <= 2);
            found.extend(keys(&page));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, ["p-4", "p-3", "p-2", "p-1", "p-0"]);
        refused(
            &open.client.get(&format!("{MACHINE}?state=snet")).await,
            400,
            "bad-query",
            "did you mean `sent`?",
        );
        assert_eq!(keys(&open.get(&format!("{MACHINE}?state=failed")).await), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_state_is_taken_by_an_outside_worker() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let actions = json!({ "sent": { "worker": { "queue": "drivers" }, "next": { "ok": "delivered", "nobody_home": "held" } } });
        open.declare(&with(json!({ "actions": actions }))).await;
        let driven = async |result: Value, ends: &str| {
            let wish = json!({ "queues": ["drivers"], "limit": 1, "lease_seconds": 300 });
            let job = open.client.lease(&wish).await.remove(0);
            assert_eq!((&job["payload"]["machine"], &job["payload"]["state"]), (&json!("parcel"), &json!("sent")));
            let (what, mut body) = match result.get("error") {
                Some(_) => ("fail", result),
                None => ("complete", json!({ "result": result })),
            };
            body["token"] = job["token"].clone();
            expect(&open.client.post(&format!("/v1/jobs/{}/{what}", job["job_id"]), &body).await, 200);
            assert_eq!(open.get(&format!("{MACHINE}/p")).await["state"], ends);
        };
        expect(&post(&open, &format!("{MACHINE}/p/start")).await, 202);
        expect(&open.client.post(&format!("{MACHINE}/p/transition"), &json!({ "to": "sent" })).await, 200);
        driven(json!({ "error": { "message": "rang twice", "code": "nobody_home", "kind": "refused" } }), "held").await;
        expect(&post(&open, &format!("{MACHINE}/p/start")).await, 202);
        driven(json!({ "signed_by": "Ada" }), "delivered").await;
        let log = open.get(&format!("{MACHINE}/p/log")).await;
        assert_eq!(log["items"].as_array().unwrap().last().unwrap()["data"], json!({ "signed_by": "Ada" }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_with_calls_survives_a_restart() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let actions = json!({ "packed": { "next": { "ok": "sent" } }, "sent": { "http": { "url": stage.services.url() }, "next": { "ok": "delivered" }, "retry": { "count": 20, "delay": "10ms" } } });
        open.declare(&with(json!({ "actions": actions }))).await;
        stage.services.will("sent", crate::acceptance_seed_004::services::Mood::Hangs);
        expect(&post(&open, &format!("{MACHINE}/p/start")).await, 202);
        stage.services.was_called_in("sent").await;
        open.kill().await;
        let open = stage.open().await;
        within(async {
            while open.get(&format!("{MACHINE}/p")).await["state"] != "delivered" {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_machine_puts_are_active_or_leave_nothing() {
    on_both_stores(async |stage| {
        let open = stage.open().await;
        let path = format!("{MACHINE}?apply=true");
        let put = async |nth: usize| {
            let titled = with(json!({ "title": format!("The {nth}th") }));
            open.put(&path, titled.to_string()).await
        };
        let answers = futures::future::join_all((0..40).map(put)).await;
        let mut accepted = Vec::new();
        for answer in &answers {
            match answer.status {
                201 => accepted.push(answer.json()),
                _ => refused(answer, 409, "raced", "somebody else changed the machine"),
            }
        }
        assert!(accepted.iter().all(|answer| answer["standing"] == "active"), "{accepted:?}");
        let mut versions: Vec<_> = accepted.iter().map(|it| it["version"].as_u64().unwrap()).collect();
        versions.sort_unstable();
        let shown = open.get(MACHINE).await;
        let kept: Vec<_> =
            shown["versions"].as_array().unwrap().iter().map(|it| it["version"].as_u64().unwrap()).collect();
        assert_eq!(kept, versions, "whoever was refused left no version");
        assert_eq!((&shown["active"], &shown["staged"]), (&json!(versions.last().unwrap()), &json!(null)));
    })
    .await;
}
