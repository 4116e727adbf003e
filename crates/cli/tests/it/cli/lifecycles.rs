//! `lifecycles`

use serde_json::json;

use crate::cli::stage::{Stage, on_both_stores};

const PARCEL: &str = "
name: parcel
initial: packed
states: [packed, sent, held, delivered]
terminal: [delivered]
pause: { held: sent }
edges: [[packed, sent], [sent, held], [sent, delivered]]
can_fail: [packed, sent]
";

#[tokio::test]
async fn a_machine_is_declared_and_lifecycles_are_driven_through_it() {
    on_both_stores(async |stage| {
        let file = stage.file("parcel.yaml", PARCEL);
        let put = stage.run(&["lifecycles", "put", &file, "--apply"]).await.good();
        assert_eq!(put, "parcel version 1 is active\n");
        let listed = stage.run(&["lifecycles", "list"]).await.good();
        assert!(listed.contains("parcel") && listed.contains("site-provisioning"), "{listed}");

        let begun =
            stage.run(&["lifecycles", "start", "parcel", "p/1", "--correlation-id", "c-1"]).await.good();
        assert_eq!(begun, "parcel p/1 has begun, in packed\n");
        let data = stage.file("data.json", r#"{"carrier":"x"}"#);
        let moved =
            stage.run(&["lifecycles", "transition", "parcel", "p/1", "sent", "--data", &data]).await.good();
        assert_eq!(moved, "parcel p/1 has gone from packed to sent\n");
        let shown = stage.run(&["lifecycles", "show", "parcel", "p/1"]).await.good();
        assert!(shown.contains("● sent") && shown.contains("delivered, failed, held"), "{shown}");
        let refused = stage.run(&["lifecycles", "transition", "parcel", "p/1", "packed"]).await.failed();
        assert!(refused.contains("/docs/errors/no-such-edge"), "{refused}");
        let failed =
            stage.run(&["lifecycles", "fail", "parcel", "p/1", "internal", "--message", "lost"]).await.good();
        assert_eq!(failed, "parcel p/1 has gone from sent to failed\n");
        let again = stage.run(&["lifecycles", "start", "parcel", "p/1"]).await.good();
        assert!(again.starts_with("parcel p/1 stays in failed: "), "{again}");

        let log = stage.run(&["lifecycles", "log", "parcel", "p/1"]).await.good();
        assert!(log.contains("lifecycle.transitioned") && log.contains("from sent: internal: lost"), "{log}");
        let log = stage.run(&["lifecycles", "log", "parcel", "p/1", "--json"]).await.lines();
        assert_eq!((log.len(), &log[2]["error_kind"]), (3, &json!("internal")));
        let table = stage.run(&["lifecycles", "list", "parcel", "--state", "failed"]).await.good();
        assert!(table.contains("p/1") && table.contains("✗ failed"), "{table}");
        let machine = stage.run(&["lifecycles", "show", "parcel"]).await.good();
        assert!(machine.contains("stateDiagram-v2") && machine.contains("Versions"), "{machine}");
        let machine = stage.run(&["lifecycles", "show", "parcel", "--json"]).await.json();
        assert_eq!(machine["counts"]["failed"], 1);

        let letters = stage.run(&["lifecycles", "dead-letters"]).await;
        assert!(letters.stderr.contains("no dead letters of lifecycles"), "{letters:?}");
        let other =
            stage.file("other.yaml", &PARCEL.replace("[packed, sent],", "[packed, sent], [packed, held],"));
        assert_eq!(stage.run(&["lifecycles", "put", &other]).await.good(), "parcel version 2 is staged\n");
        let wrong = stage.run(&["lifecycles", "discard", "parcel", "--version", "1"]).await.failed();
        assert!(wrong.contains("/docs/errors/raced") && wrong.contains("version 2 of `parcel`"), "{wrong}");
        let discarded = stage.run(&["lifecycles", "discard", "parcel", "--version", "2"]).await.good();
        assert_eq!(discarded, "parcel version 2 is discarded\n");
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_called_like_a_route_is_a_key() {
    let stage = Stage::new().await;
    let file = stage.file("parcel.yaml", PARCEL);
    stage.run(&["lifecycles", "put", &file, "--apply"]).await.good();
    for key in ["apply", "staged", "a b?c#d", "ü"] {
        let begun = stage.run(&["lifecycles", "start", "parcel", key]).await.good();
        assert_eq!(begun, format!("parcel {key} has begun, in packed\n"));
        let shown = stage.run(&["lifecycles", "show", "parcel", key, "--json"]).await.json();
        assert_eq!(shown["key"], key);
    }
    let unknown = stage.run(&["lifecycles", "show", "parcle", "p-1"]).await.failed();
    assert!(unknown.contains("parcel"), "the machine that is meant is named: {unknown}");
}
