//! `definitions`

use serde_json::json;

use crate::cli::stage::{Stage, on_both_stores};

const SAGA: &str = "name: greet\nsteps:\n  - { id: hello, action: { worker: { queue: words } } }\n";

#[tokio::test]
async fn a_definition_is_staged_looked_at_applied_and_discarded() {
    on_both_stores(async |stage| {
        let file = stage.file("greet.yaml", SAGA);
        assert_eq!(stage.run(&["definitions", "put", &file]).await.good(), "greet version 1 is staged\n");
        let listed = stage.run(&["definitions", "list"]).await.good();
        assert!(listed.contains("greet") && listed.contains("order"), "{listed}");
        assert_eq!(stage.run(&["definitions", "apply", "greet"]).await.good(), "greet version 1 is active\n");
        let changed = SAGA.replace("hello", "goodbye");
        let staged = stage.run_on(&["definitions", "put", "-", "--json"], &changed).await.json();
        assert_eq!((&staged["version"], &staged["standing"]), (&json!(2), &json!("staged")));
        let shown = stage.run(&["definitions", "show", "greet"]).await.good();
        assert!(shown.contains("active") && shown.contains("goodbye"), "{shown}");
        let wrong = stage.run(&["definitions", "apply", "greet", "--version", "7"]).await.failed();
        assert!(wrong.contains("/docs/errors/raced"), "{wrong}");
        let wrong = stage.run(&["definitions", "discard", "greet", "--version", "1"]).await.failed();
        assert!(wrong.contains("/docs/errors/raced") && wrong.contains("but version 2 is"), "{wrong}");
        assert_eq!(
            stage.run(&["definitions", "discard", "greet", "--version", "2"]).await.good(),
            "greet version 2 is discarded\n"
        );
        let nothing = stage.run(&["definitions", "discard", "greet"]).await.failed();
        assert!(nothing.contains("/docs/errors/nothing-staged"), "{nothing}");
        let version = stage.run(&["definitions", "show", "greet", "--version", "1", "--json"]).await.json();
        assert_eq!(version["definition"]["steps"][0]["id"], "hello");
    })
    .await;
}

#[tokio::test]
async fn all_errors_are_reported_with_their_paths() {
    let stage = Stage::new().await;
    let file =
        stage.file("bad.yaml", "name: bad\nsteps:\n  - { idd: a, action: { http: { url: 'ftp://x' } } }\n");
    let told = stage.run(&["definitions", "put", &file]).await.failed();
    for line in ["steps[0].idd: is not known: did you mean `id`?", "steps[0].action.http.url: is neither"] {
        assert!(told.contains(line), "{told}");
    }
    // Errors of the server are shown in the same way.
    let create =
        ["webhooks", "subscriptions", "create", "--url", "ftp://x", "--events", "a b", "--timeout", "2h"];
    let told = stage.run(&create).await.failed();
    for line in ["\n  url: ", "\n  event_types", "\n  timeout: ", "/docs/errors/invalid-fields"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let problem = stage.run(&[&create[..], &["--json"]].concat()).await;
    assert_eq!(problem.code, 1);
    let problem: serde_json::Value = serde_json::from_str(&problem.stdout).unwrap();
    assert_eq!(problem["status"], 422, "programs read what is wrong as the server wrote it");
}

#[tokio::test]
async fn a_machine_is_no_definition() {
    let stage = Stage::new().await;
    let file = stage.file("m.yaml", "name: m\ninitial: a\nstates: [a]\nterminal: [a]\n");
    assert!(stage.run(&["definitions", "put", &file]).await.failed().contains("backstitch lifecycles put"));
    let file = stage.file("greet.yaml", SAGA);
    assert!(stage.run(&["lifecycles", "put", &file]).await.failed().contains("backstitch definitions put"));
}

#[tokio::test]
async fn a_name_that_the_server_needs_itself_is_refused() {
    let stage = Stage::new().await;
    let file = stage.file("orders.yaml", &SAGA.replace("greet", "orders"));
    assert!(stage.run(&["definitions", "put", &file]).await.failed().contains("/docs/errors/name-taken"));
}
