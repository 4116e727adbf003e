//! What can be written, and what it means.

use std::time::Duration;

use backstitch::kernel::saga::draft::{
    DEFAULT_COMPENSATION_TIMEOUT, DEFAULT_STEP_TIMEOUT, default_compensation_retry, default_retry,
};
use backstitch::{DraftStep, Payload, Performer, Retry, secs};
use backstitch_modules::declaration::{Declaration, Format};
use serde_json::json;

use crate::declaration::support::{with_step, yaml};

const ORDER: &str = r#"
name: order-confirmation
title: Confirm an order
metadata: { owner: shop, budget: 12.5, tags: [a, b] }
continue_on_compensation_failure: true
compensation_concurrency: 2
steps:
  - id: payment
    title: Charge the card
    action:     { http: { method: POST, url: "http://127.0.0.1:7431/payment/charge", headers: { X-Tenant: "7" } } }
    compensate: { http: { method: POST, url: "http://127.0.0.1:7431/payment/refund" }, timeout: 10s, retry: { count: 5, delay: 200ms, backoff: exponential } }
    timeout: 30s
    retry: { count: 2, delay: 1s, backoff: exponential, max_delay: 30s, jitter: 20 }
    concurrency: 4
  - id: inventory
    depends_on: [payment]
    action: { worker: { queue: inventory } }
    compensate: { worker: { queue: inventory-undo } }
  - id: mail
    depends_on: []
    action: { http: { url: "https://mail/send" } }
    timeout: 1m 30s
"#;

fn first_step(fields: &str) -> DraftStep {
    yaml(&with_step(fields)).steps.remove(0)
}

fn retry(policy: &str) -> Retry {
    first_step(&format!("retry: {policy}")).retry
}

fn undo_retry(policy: &str) -> Retry {
    let fields = format!("compensate: {{ http: {{ url: 'http://pay/' }}, retry: {policy} }}");
    first_step(&fields).compensate.unwrap().retry
}

#[test]
fn a_whole_definition_is_read() {
    let draft = yaml(ORDER);
    assert_eq!((draft.name.as_str(), draft.version), ("order-confirmation", 1));
    assert_eq!(draft.title.as_deref(), Some("Confirm an order"));
    let metadata: serde_json::Value = draft.metadata.as_ref().unwrap().decode().unwrap();
    assert_eq!(metadata, json!({"owner": "shop", "budget": 12.5, "tags": ["a", "b"]}));
    assert!(draft.continue_on_compensation_failure);
    assert_eq!(draft.compensation_concurrency, 2);

    let [payment, inventory, mail] = &draft.steps[..] else { panic!("{:?}", draft.steps) };
    assert_eq!((payment.title.as_deref(), payment.concurrency), (Some("Charge the card"), Some(4)));
    assert_eq!((payment.timeout, payment.depends_on.clone()), (secs(30), None));
    assert_eq!(payment.retry, Retry::exponential(2, secs(1)).with_cap(secs(30)).with_jitter(20));
    let undo = payment.compensate.as_ref().unwrap();
    assert_eq!(undo.timeout, secs(10));
    let call = json!({"http": {"method": "POST", "url": "http://127.0.0.1:7431/payment/refund"}});
    assert_eq!(undo.action, Performer::Call(Payload::encode(&call).unwrap()));

    assert_eq!(inventory.action, Performer::Worker { queue: "inventory".to_owned() });
    assert_eq!(inventory.compensate.as_ref().unwrap().action.queue(), Some("inventory-undo"));
    assert_eq!(inventory.depends_on, Some(vec!["payment".to_owned()]));
    assert_eq!((mail.timeout, mail.depends_on.clone()), (secs(90), Some(Vec::new())));
}

#[test]
fn the_same_definition_is_read_from_json() {
    let shown = Declaration::show(&yaml(ORDER)).to_string();
    assert_eq!(Declaration::read(shown.as_bytes(), Format::Json).unwrap(), yaml(ORDER));
    assert_eq!(yaml(&shown), yaml(ORDER), "JSON is YAML too");
}

#[test]
fn what_is_not_written_is_as_documented() {
    let step = first_step("compensate: { http: { url: 'http://pay/' } }");
    assert_eq!((step.timeout, DEFAULT_STEP_TIMEOUT), (secs(60), secs(60)));
    assert_eq!((step.retry, default_retry()), (Retry::fixed(2, secs(5)), Retry::fixed(2, secs(5))));
    let undo = step.compensate.unwrap();
    assert_eq!((undo.timeout, DEFAULT_COMPENSATION_TIMEOUT), (secs(120), secs(120)));
    assert_eq!(undo.retry, Retry::exponential(5, secs(1)).with_cap(secs(60)));
    let draft = yaml("{name: a, steps: [{id: b, action: {worker: {queue: c}}}]}");
    assert!(!draft.continue_on_compensation_failure);
    assert_eq!((draft.compensation_concurrency, draft.steps[0].concurrency), (1, None));
}

#[test]
fn a_retry_policy_says_only_what_differs() {
    assert_eq!(retry("3"), Retry::fixed(3, secs(5)));
    assert_eq!(retry("0").count, 0);
    assert_eq!(retry("{}"), default_retry());
    assert_eq!(retry("{ delay: 1s }"), Retry::fixed(2, secs(1)));
    assert_eq!(retry("{ count: 7 }"), Retry::fixed(7, secs(5)));
    assert_eq!(retry("{ backoff: exponential }"), Retry::exponential(2, secs(5)));
    assert_eq!(retry("{ delays: [1s, 1m 30s] }"), Retry::after_each(vec![secs(1), secs(90)]));
    assert_eq!(retry("{ backoff: list, delays: [1s], count: 4 }").count, 4);
    assert_eq!(retry("{ jitter: 100 }"), Retry::fixed(2, secs(5)).with_jitter(100));

    assert_eq!(undo_retry("1"), Retry::exponential(1, secs(1)).with_cap(secs(60)));
    assert_eq!(undo_retry("{}"), default_compensation_retry());
    assert_eq!(undo_retry("{ backoff: fixed }"), Retry::fixed(5, secs(1)));
    let ms = Duration::from_millis(200);
    assert_eq!(undo_retry("{ delay: 200ms }"), Retry::exponential(5, ms).with_cap(secs(60)));
    let long = Retry::exponential(5, secs(300)).with_cap(secs(300));
    assert_eq!(undo_retry("{ delay: 5m }"), long, "a limit that nobody wrote shortens nothing");
}

#[test]
fn anchors_and_merge_keys_save_writing() {
    let draft = yaml(
        "
name: order
steps:
  - id: pay
    action: { worker: { queue: q } }
    retry: &often { count: 9, delay: 1s }
  - id: ship
    action: { worker: { queue: q } }
    retry: *often
  - id: mail
    action: { worker: { queue: q } }
    retry: { <<: *often, count: 1 }
",
    );
    assert_eq!(draft.steps[1].retry, Retry::fixed(9, secs(1)));
    assert_eq!(draft.steps[2].retry, Retry::fixed(1, secs(1)));
}

#[test]
fn words_of_yaml_1_1_are_text() {
    let draft = yaml("{name: no, title: on, steps: [{id: yes, action: {worker: {queue: off}}}]}");
    assert_eq!((draft.name.as_str(), draft.title.as_deref()), ("no", Some("on")));
    assert_eq!((draft.steps[0].id.as_str(), draft.steps[0].action.queue()), ("yes", Some("off")));
}

#[test]
fn a_definition_is_shown_as_its_author_could_have_written_it() {
    let text = "{name: a, steps: [{id: b, action: {http: {url: 'http://pay'}}, retry: 3}, {id: c, action: {worker: {queue: q}}, timeout: 90s}]}";
    assert_eq!(
        Declaration::show(&yaml(text)),
        json!({
            "name": "a",
            "steps": [
                {
                    "id": "b",
                    "action": {"http": {"method": "POST", "url": "http://pay"}},
                    "retry": {"count": 3, "delay": "5s", "backoff": "fixed"},
                },
                {"id": "c", "action": {"worker": {"queue": "q"}}, "timeout": "1m 30s"},
            ],
        })
    );
}

#[test]
fn a_saga_of_code_is_shown_without_its_code() {
    let mut draft = yaml(&with_step("compensate: { worker: { queue: q } }"));
    draft.steps[0].action = Performer::Code;
    let shown = Declaration::show(&draft);
    assert_eq!(shown["steps"][0], json!({"id": "pay", "compensate": {"worker": {"queue": "q"}}}));
}

#[test]
fn what_the_documentation_shows_can_be_read() {
    let page = include_str!("../../../../../docs/definitions.md");
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2, "the page shows definitions");
    for example in examples {
        let example = example.replace('…', "x");
        assert!(yaml(&example).check().is_ok());
    }
}
