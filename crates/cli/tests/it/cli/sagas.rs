//! `start`, `ps`, `show` and `log`.

use serde_json::json;

use crate::cli::stage::{Stage, on_both_stores};

#[tokio::test]
async fn a_saga_is_started_listed_shown_and_its_log_read() {
    on_both_stores(async |stage| {
        let id = stage.ended_order(&[], "succeeded").await;
        let table = stage.run(&["ps"]).await.good();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("ID ") && lines[0].contains("STATUS"), "{table}");
        assert!(lines[1].starts_with(&format!("{id}  ✓ succeeded  order v1")), "{table}");

        let shown = stage.run(&["show", &id]).await.good();
        assert!(shown.starts_with(&format!("Saga {id}\n  status")), "{shown}");
        for words in ["✓ succeeded", "order v1", "payment", "inventory", "logistics", "Z ("] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let log = stage.run(&["log", &id]).await.good();
        assert!(log.lines().next().unwrap().starts_with("SEQ"), "{log}");
        assert!(log.contains("step.succeeded") && log.trim_end().ends_with("saga.succeeded"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn programs_get_the_servers_json_as_it_came() {
    on_both_stores(async |stage| {
        let id = stage.ended_order(&[], "succeeded").await;
        let client = &stage.program.client;
        for (arguments, path) in [
            (vec!["show", &id, "--json"], format!("/v1/sagas/{id}")),
            (vec!["ps", "--json"], "/v1/sagas".to_owned()),
        ] {
            let answered = client.get(&path).await;
            let printed = stage.run(&arguments).await.good();
            assert_eq!(printed.trim_end().as_bytes(), answered.body, "{path}");
        }
        let log = stage.run(&["log", &id, "--json"]).await.lines();
        let answered = client.get(&format!("/v1/sagas/{id}/log")).await.json();
        assert_eq!(json!(log), answered["items"]);
        let rest = stage.run(&["log", &id, "--json", "--after", "2", "--limit", "3"]).await.lines();
        assert_eq!(rest, log[2..5]);
    })
    .await;
}

#[tokio::test]
async fn a_start_brings_along_all_it_can() {
    let stage = Stage::new().await;
    let arguments = [
        "start",
        "order",
        "--input",
        "-",
        "--key",
        "k-1",
        "--correlation-id",
        "c-1",
        "--attr",
        "tenant=acme",
        "--attr",
        "empty=",
        "--deadline",
        "2h",
        "--json",
    ];
    let started = stage.run_on(&arguments, r#"{"items": [], "big": 12345678901234567890.5}"#).await.json();
    let id = started["id"].as_str().unwrap();
    stage.program.client.ended(id).await;
    let saga = stage.program.client.get(&format!("/v1/sagas/{id}")).await;
    assert!(
        String::from_utf8_lossy(&saga.body).contains("12345678901234567890.5"),
        "the input is sent as it stands"
    );
    let saga = saga.json();
    assert_eq!(
        (&saga["correlation_id"], &saga["attributes"]),
        (&json!("c-1"), &json!({"tenant": "acme", "empty": ""}))
    );
    assert!(saga["deadline"].is_string(), "{saga}");

    let again = stage.run_on(&arguments[..12], r#"{"items": [], "big": 12345678901234567890.5}"#).await;
    assert_eq!(again.code, 1, "another deadline is another start");
    assert!(again.stderr.contains("idempotency-conflict") && again.stderr.contains(id), "{again:?}");
}

#[tokio::test]
async fn the_same_key_is_the_same_saga() {
    let stage = Stage::new().await;
    let input = stage.wishing(&[]);
    let start = ["start", "order", "--input", &input, "--key", "once", "--json"];
    let first = stage.run(&start).await.json();
    let second = stage.run(&start).await.json();
    assert_eq!(first["id"], second["id"]);
    assert_eq!(stage.run(&["ps", "--json"]).await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sagas_are_listed_by_filter_and_page_by_page() {
    on_both_stores(async |stage| {
        let mut ids = Vec::new();
        for number in 0..5 {
            let attribute = format!("parity={}", number % 2);
            let input = stage.wishing(&[]);
            let start = ["start", "order", "--input", &input, "--attr", &attribute, "--json"];
            ids.push(stage.run(&start).await.json()["id"].as_str().unwrap().to_owned());
        }
        let listed = async |arguments: &[&str]| -> Vec<String> {
            let arguments = [&["ps", "--json"], arguments].concat();
            let pages = stage.run(&arguments).await.lines();
            let items = pages.iter().flat_map(|page| page["items"].as_array().unwrap());
            items.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
        };
        let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
        assert_eq!(listed(&[]).await, newest_first);
        assert_eq!(listed(&["--limit", "2"]).await, newest_first[..2]);
        assert_eq!(listed(&["--limit", "2", "--all"]).await, newest_first);
        assert_eq!(listed(&["--limit", "2", "--cursor", &newest_first[1]]).await, newest_first[2..4]);
        assert_eq!(listed(&["--attr", "parity=1"]).await, [ids[3].clone(), ids[1].clone()]);
        assert_eq!(listed(&["--definition", "other"]).await, [""; 0]);
        assert_eq!(listed(&["--status", "failed"]).await, [""; 0]);

        let page = stage.run(&["ps", "--limit", "2"]).await;
        assert!(page.stderr.contains(&format!("--cursor {}", newest_first[1])), "{page:?}");
        let all = stage.run(&["ps", "--limit", "2", "--all"]).await.good();
        assert_eq!(all.matches("ID ").count(), 1, "the titles stand there once: {all}");
        assert_eq!(all.lines().count(), 6, "{all}");
    })
    .await;
}

#[tokio::test]
async fn the_beginning_of_an_id_is_enough_where_it_is_the_only_one() {
    on_both_stores(async |stage| {
        let id = stage.ended_order(&[], "succeeded").await;
        for begins in [&id[..8], &id[..20], &id.replace('-', "")[..13], &id.to_uppercase()[..30]] {
            let shown = stage.run(&["show", begins, "--json"]).await.json();
            assert_eq!(shown["id"], json!(id), "{begins}");
        }
        let other = stage.ended_order(&[], "succeeded").await;
        let common: String =
            id.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
        let several = stage.run(&["show", &common]).await.failed();
        assert!(
            several.contains("several") && several.contains(&id) && several.contains(&other),
            "{several}"
        );
    })
    .await;
}

#[tokio::test]
async fn unknown_saga_error_suggests_similar_ids() {
    let stage = Stage::new().await;
    let none = stage.run(&["show", "01923c4e-5b6a-7000-8000-000000000001"]).await.failed();
    assert!(none.contains("there is no saga yet"), "{none}");
    let id = stage.ended_order(&[], "succeeded").await;
    let last = if id.ends_with('0') { "1" } else { "0" };
    let slip = format!("{}{last}", &id[..35]);
    for verb in ["show", "log", "follow", "cancel", "pause", "resume"] {
        let told = stage.run(&[verb, &slip]).await.failed();
        assert!(told.contains(&format!("there is no saga {slip}")), "{verb}: {told}");
        assert!(told.contains(&format!("{id}  ✓ succeeded  order")), "{verb}: {told}");
    }
    let told = stage.run(&["resolve", &slip, "payment", "retry", "--note", "n"]).await.failed();
    assert!(told.contains(&id), "{told}");
    assert!(stage.run(&["show", "ffffffff"]).await.failed().contains(&id));
    assert!(stage.run(&["show", "no id at all"]).await.failed().contains("is not the id of a saga"));
}

#[tokio::test]
async fn unknown_definition_error_suggests_similar_names() {
    let stage = Stage::new().await;
    for arguments in [
        &["start", "odrer"][..],
        &["definitions", "show", "Order"],
        &["definitions", "apply", "ordr"],
        &["definitions", "discard", "oder", "--version", "2"],
    ] {
        let told = stage.run(arguments).await.failed();
        assert!(told.contains("did you mean `order`?"), "{told}");
    }
    let known = stage.run(&["definitions", "apply", "order"]).await.failed();
    assert!(known.contains("nothing-staged") && !known.contains("did you mean"), "{known}");
}

#[tokio::test]
async fn an_input_that_cannot_be_read_starts_nothing() {
    let stage = Stage::new().await;
    let broken = stage.file("broken.json", "{\"a\": }");
    let told = stage.run(&["start", "order", "--input", &broken]).await.failed();
    assert!(told.contains("broken.json is not JSON") && told.contains("line 1 column 7"), "{told}");
    let told = stage.run(&["start", "order", "--input", "/nowhere.json"]).await.failed();
    assert!(told.contains("/nowhere.json cannot be read"), "{told}");
    assert_eq!(stage.run(&["ps", "--json"]).await.json()["items"], json!([]));
}
