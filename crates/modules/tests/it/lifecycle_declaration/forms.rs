//! What can be written, and what it means.

use std::collections::BTreeMap;

use backstitch::kernel::lifecycle::draft::Allowed;
use backstitch::{Payload, Performer, Retry, secs};
use backstitch_modules::declaration::Format;
use backstitch_modules::lifecycles::sites::{self, Endpoints};
use backstitch_modules::lifecycles::{Builder, Draft, DraftAction, declaration};
use serde_json::json;

use crate::lifecycle_declaration::support::{with, yaml};

const PARCEL: &str = r#"
name: parcel
title: A parcel on its way
subject: parcels.moved
initial: ordered
states: [ordered, packed, sent, held, delivered]
terminal: [delivered]
pause: { held: sent }
edges:
  - [ordered, packed]
  - [packed, sent]
  - [sent, held]
  - [sent, delivered]
can_fail: [packed, sent]
error_kinds: [nobody_home, lost]
actions:
  ordered: { next: { ok: packed } }
  packed:
    http: { method: PUT, url: "http://carrier/pick-up", headers: { X-Tenant: "7" } }
    next: { ok: sent }
    timeout: 5s
    retry: { count: 3, delay: 1s, backoff: exponential, jitter: 10 }
  sent:
    worker: { queue: drivers }
    next: { ok: delivered, nobody_home: held, lost: failed }
stuck_after: { packed: 10m, sent: 2days }
"#;

const PARCEL_IN_JSON: &str = r#"{
    "name": "parcel",
    "title": "A parcel on its way",
    "subject": "parcels.moved",
    "initial": "ordered",
    "states": ["ordered", "packed", "sent", "held", "delivered"],
    "terminal": ["delivered"],
    "pause": {"held": "sent"},
    "edges": [["ordered", "packed"], ["packed", "sent"], ["sent", "held"], ["sent", "delivered"]],
    "can_fail": ["packed", "sent"],
    "error_kinds": ["nobody_home", "lost"],
    "actions": {
        "ordered": {"next": {"ok": "packed"}},
        "packed": {
            "http": {"method": "PUT", "url": "http://carrier/pick-up", "headers": {"X-Tenant": "7"}},
            "next": {"ok": "sent"},
            "timeout": "5s",
            "retry": {"count": 3, "delay": "1s", "backoff": "exponential", "jitter": 10}
        },
        "sent": {
            "worker": {"queue": "drivers"},
            "next": {"ok": "delivered", "nobody_home": "held", "lost": "failed"}
        }
    },
    "stuck_after": {"packed": "10m", "sent": "2days"}
}"#;

fn parcel() -> Draft {
    let call =
        json!({"http": {"method": "PUT", "url": "http://carrier/pick-up", "headers": {"X-Tenant": "7"}}});
    let call = Performer::Call(Payload::encode(&call).unwrap());
    Builder::new("parcel", "ordered")
        .title("A parcel on its way")
        .subject("parcels.moved")
        .state("packed")
        .state("sent")
        .pause("held", "sent")
        .terminal("delivered")
        .edges([("ordered", "packed"), ("packed", "sent"), ("sent", "held"), ("sent", "delivered")])
        .can_fail(["packed", "sent"])
        .error_kind("nobody_home")
        .error_kind("lost")
        .passing("ordered", "packed")
        .action("packed", DraftAction::performed_by(call, "sent"))
        .timeout("packed", secs(5))
        .retry("packed", Retry::exponential(3, secs(1)).with_jitter(10))
        .worker("sent", "drivers", "delivered")
        .on_error("sent", "nobody_home", "held")
        .on_error("sent", "lost", "failed")
        .stuck_after("packed", secs(600))
        .stuck_after("sent", secs(2 * 24 * 3600))
        .build()
        .unwrap()
}

fn shown_and_read(draft: &Draft) -> Draft {
    yaml(&declaration::show(draft).to_string())
}

#[test]
fn a_whole_machine_is_read_from_yaml() {
    assert_eq!(yaml(PARCEL), parcel());
}

#[test]
fn the_same_machine_is_read_from_json() {
    assert_eq!(declaration::read(PARCEL_IN_JSON.as_bytes(), Format::Json).unwrap(), parcel());
    assert_eq!(yaml(PARCEL_IN_JSON), parcel(), "JSON is YAML too");
}

#[test]
fn a_machine_that_is_read_can_be_declared() {
    let machine = yaml(PARCEL).check().unwrap();
    assert_eq!((machine.name(), machine.version()), ("parcel", 1));
    assert_eq!(machine.topic("sent"), "parcels.moved.sent");
}

#[test]
fn what_is_not_written_is_as_documented() {
    let draft = yaml(
        "{name: m, initial: a, states: [a], can_fail: [a], actions: {a: {worker: {queue: q}, next: {ok: failed}}}}",
    );
    assert_eq!((draft.title.clone(), draft.subject.clone(), draft.version), (None, None, 1));
    assert!(draft.terminal.is_empty() && draft.edges.is_empty() && draft.error_kinds.is_empty());
    assert_eq!((draft.pause.clone(), draft.stuck_after.clone()), (BTreeMap::new(), BTreeMap::new()));
    let action = &draft.actions["a"];
    assert_eq!((action.timeout, &action.retry), (secs(60), &Retry::fixed(2, secs(5))));
}

#[test]
fn a_state_with_next_alone_is_only_passed() {
    let draft = yaml(&with(&["actions: { a: { next: { ok: b } } }"]));
    assert_eq!(draft.actions["a"], DraftAction::passing_to("b"));
}

#[test]
fn a_call_is_a_post_unless_it_says_otherwise() {
    let draft = yaml(&with(&["actions: { a: { http: { url: 'http://x' }, next: { ok: b } } }"]));
    let call = Payload::encode(&json!({"http": {"method": "POST", "url": "http://x"}})).unwrap();
    assert_eq!(draft.actions["a"].performer, Some(Performer::Call(call)));
}

#[test]
fn failed_may_be_named_among_the_states() {
    let draft = yaml(&with(&["states: [a, b, c, failed]", "terminal: [c, failed]"]));
    assert_eq!(draft.states.len(), 4);
    assert_eq!(shown_and_read(&draft), draft);
}

#[test]
fn a_machine_is_shown_as_its_author_could_have_written_it() {
    let draft = yaml(&with(&[
        "actions: { a: { http: { url: 'http://x' }, next: { ok: b }, retry: 3 }, b: { next: { ok: c } } }",
        "stuck_after: { a: 600s }",
    ]));
    assert_eq!(
        declaration::show(&draft),
        json!({
            "name": "letters",
            "initial": "a",
            "states": ["a", "b", "c"],
            "terminal": ["c"],
            "edges": [["a", "b"], ["b", "c"]],
            "can_fail": ["a", "b"],
            "error_kinds": ["lost"],
            "actions": {
                "a": {
                    "http": {"method": "POST", "url": "http://x"},
                    "next": {"ok": "b"},
                    "retry": {"count": 3, "delay": "5s", "backoff": "fixed"},
                },
                "b": {"next": {"ok": "c"}},
            },
            "stuck_after": {"a": "10m"},
        })
    );
    assert_eq!(shown_and_read(&draft), draft);
}

#[test]
fn what_is_shown_says_nothing_of_defaults_and_versions() {
    let draft = Draft { version: 7, ..yaml("{name: m, initial: a, states: [a], can_fail: [a]}") };
    let shown = declaration::show(&draft);
    assert_eq!(shown, json!({"name": "m", "initial": "a", "states": ["a"], "can_fail": ["a"]}));
}

#[test]
fn site_provisioning_is_shown_and_read_as_the_same() {
    let outside = sites::machine(&Endpoints::default()).unwrap();
    assert_eq!(shown_and_read(&outside), outside);

    let url = |service: &str| Some(format!("http://{service}/do"));
    let endpoints = Endpoints {
        resolve_source: url("github"),
        create_project: url("vercel"),
        create_hook: url("hooks"),
        timeout: Some(secs(20)),
        retry: Some(Retry::exponential(4, secs(2))),
        ..Endpoints::default()
    };
    let driven = sites::machine(&endpoints).unwrap();
    let shown = declaration::show(&driven);
    assert_eq!(shown["actions"]["hook_creating"]["site"], "create_hook", "who it is is the server's to know");
    assert_eq!(driven.stuck_after.get("hook_creating"), Some(&Allowed(secs(600))));
}
