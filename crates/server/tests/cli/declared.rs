//! `definitions`

use serde_json::json;

use crate::stage::{Stage, on_both_stores};

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
        assert_eq!(
            stage.run(&["definitions", "discard", "greet"]).await.good(),
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
async fn every_mistake_is_told_with_its_place() {
    let stage = Stage::new().await;
    let file =
        stage.file("bad.yaml", "name: bad\nsteps:\n  - { idd: a, action: { http: { url: 'ftp://x' } } }\n");
    let told = stage.run(&["definitions", "put", &file]).await.failed();
    for line in ["steps[0].idd: is not known: did you mean `id`?", "steps[0].action.http.url: is neither"] {
        assert!(told.contains(line), "{told}");
    }
    // What only the whole shows is found by the server, and told in the same way.
    let cycle = "name: cycle\nsteps:\n  - { id: a, depends_on: [b], action: { worker: { queue: q } } }\n  - { id: b, depends_on: [a], action: { worker: { queue: q } } }\n";
    let file = stage.file("cycle.yaml", cycle);
    let told = stage.run(&["definitions", "put", &file]).await.failed();
    assert!(told.contains("/docs/errors/invalid-fields"), "{told}");
    let problem = stage.run(&["definitions", "put", &file, "--json"]).await;
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
