//! The description of state-changed messages says what the machine does.

use std::collections::BTreeSet;

use backstitch_modules::lifecycles::sites::{self, Endpoints};
use backstitch_modules::lifecycles::{Failure, Given};
use serde_json::Value;

use crate::lifecycle_nats::stage::{SITES, Stage};

const PROTO: &str = include_str!("../../../proto/site_provisioning.proto");

/// What stands between the braces of a declaration, line by line, without comments.
fn body(declaration: &str) -> Vec<&'static str> {
    let start = PROTO.find(&format!("\n{declaration} {{")).unwrap_or_else(|| panic!("no {declaration}"));
    let inside = PROTO[start..].split_once('{').unwrap().1.split_once('}').unwrap().0;
    inside.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).collect()
}

/// The values of an enum as messages write them, with their numbers.
fn values(name: &str, prefix: &str) -> Vec<(String, u32)> {
    let value = |line: &str| {
        let (value, number) = line.trim_end_matches(';').split_once(" = ").unwrap();
        (value.strip_prefix(prefix).unwrap().to_lowercase(), number.parse().unwrap())
    };
    body(&format!("enum {name}")).into_iter().map(value).collect()
}

/// The names but the one that stands for nothing, each of which has a number of its own.
fn named(values: Vec<(String, u32)>) -> BTreeSet<String> {
    let numbers: BTreeSet<u32> = values.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers.len(), values.len(), "{values:?}");
    assert_eq!(values[0], ("unspecified".to_owned(), 0));
    values.into_iter().skip(1).map(|(name, _)| name).collect()
}

fn fields() -> BTreeSet<String> {
    let field = |line: &str| line.split_once(" = ").unwrap().0.rsplit_once(' ').unwrap().1.to_owned();
    body("message SiteProvisionStateChanged").into_iter().map(field).collect()
}

#[test]
fn the_enums_are_the_states_and_the_error_kinds_of_the_machine() {
    let machine = sites::machine(&Endpoints::default()).unwrap().check().unwrap();
    let states: BTreeSet<String> = machine.states().map(|(state, _)| state.to_owned()).collect();
    assert_eq!(named(values("SiteProvisionState", "SITE_PROVISION_STATE_")), states);
    let kinds: BTreeSet<String> = machine.draft().error_kinds.iter().cloned().collect();
    assert_eq!(named(values("ProvisionErrorKind", "PROVISION_ERROR_KIND_")), kinds);
}

#[test]
fn the_message_has_the_names_that_the_seed_gives() {
    assert!(PROTO.contains("syntax = \"proto3\";") && PROTO.contains("package events.onboarding.v1;"));
    assert!(body(&format!("message {}", sites::STATE_CHANGED)).iter().all(|field| field.ends_with(';')));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_the_fields_of_its_description_and_values_of_its_enums() {
    for stage in Stage::each().await {
        let node = stage.node().await;
        node.lifecycles.provide_sites(&Endpoints::default()).await.unwrap();
        let given = Given { correlation_id: Some("c".to_owned()), input: None };
        node.lifecycles.start(SITES, "s", given).await.unwrap();
        node.lifecycles.transition(SITES, "s", "source_resolving", None).await.unwrap();
        let failure = Failure { kind: "github_api".to_owned(), message: "rate limit".to_owned() };
        node.lifecycles.fail(SITES, "s", failure).await.unwrap();
        let messages = stage.texts("select payload from outbox order by id").await;
        assert_eq!(messages.len(), 2);
        let states = named(values("SiteProvisionState", "SITE_PROVISION_STATE_"));
        let kinds = named(values("ProvisionErrorKind", "PROVISION_ERROR_KIND_"));
        for message in messages {
            let message: serde_json::Map<String, Value> = serde_json::from_str(&message).unwrap();
            let beside = ["type", "machine", "key", "seq"].map(str::to_owned);
            let described: BTreeSet<String> = fields().into_iter().chain(beside).collect();
            assert_eq!(message.keys().cloned().collect::<BTreeSet<_>>(), described);
            assert_eq!(message["type"], sites::STATE_CHANGED);
            for state in ["from_state", "to_state"] {
                assert!(states.contains(message[state].as_str().unwrap()));
            }
            assert!(message["error_kind"].as_str().is_none_or(|kind| kinds.contains(kind)));
        }
    }
}
