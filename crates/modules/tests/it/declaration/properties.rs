//! What holds for every definition and for every document.

use std::time::Duration;

use backstitch::kernel::saga::draft::DraftCompensation;
use backstitch::{Backoff, Draft, DraftStep, Payload, Performer, Retry};
use backstitch_modules::declaration::{Declaration, Format, Plan, changes};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

fn performers() -> impl Strategy<Value = Performer> {
    let method = prop::sample::select(vec!["POST", "PUT", "PATCH", "DELETE", "GET"]);
    let headers = btree_map("x-[a-z]{1,8}", "[ -~]{0,12}", 0..3);
    let calls = (method, "https?://[a-z]{1,9}(:[1-9][0-9]{0,3})?(/[a-z0-9.%]{0,9})?", headers).prop_map(
        |(method, url, headers)| {
            let mut http = json!({"method": method, "url": url});
            if !headers.is_empty() {
                http["headers"] = json!(headers);
            }
            Performer::Call(Payload::encode(&json!({ "http": http })).unwrap())
        },
    );
    let workers = "[a-zä0-9][a-zä0-9._-]{0,11}".prop_map(|queue| Performer::Worker { queue });
    prop_oneof![calls, workers]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1_u64..100_000).prop_map(Duration::from_millis),
        (1_u64..30_000_000).prop_map(Duration::from_secs),
        (1_u64..10_u64.pow(15)).prop_map(Duration::from_nanos),
    ]
}

fn retries() -> impl Strategy<Value = Retry> {
    let backoff = prop_oneof![
        durations().prop_map(Backoff::Fixed),
        (durations(), durations())
            .prop_map(|(one, other)| Backoff::Exponential { base: one.min(other), cap: one.max(other) }),
        vec(durations(), 1..4).prop_map(Backoff::List),
    ];
    (0_u32..=1000, backoff, 0_u8..=100).prop_map(|(count, backoff, jitter_percent)| Retry {
        count,
        backoff,
        jitter_percent,
        within: None,
    })
}

fn compensations() -> impl Strategy<Value = DraftCompensation> {
    (performers(), durations(), option::of(durations()), retries()).prop_map(
        |(action, timeout, queue_timeout, retry)| DraftCompensation {
            queue_timeout: queue_timeout.filter(|_| action.queue().is_some()),
            action,
            timeout,
            retry,
        },
    )
}

fn steps() -> impl Strategy<Value = DraftStep> {
    let times = (durations(), option::of(durations()), retries(), option::of(1_u32..9));
    (option::of("\\PC{0,20}"), option::of(Just(Vec::new())), performers(), option::of(compensations()), times)
        .prop_map(|(title, depends_on, action, compensate, (timeout, queue_timeout, retry, concurrency))| {
            DraftStep {
                id: String::new(),
                title,
                depends_on,
                concurrency: concurrency.filter(|_| action.queue().is_none()),
                queue_timeout: queue_timeout.filter(|_| action.queue().is_some()),
                action,
                timeout,
                retry,
                compensate,
            }
        })
}

prop_compose! {
    fn drafts()(
        name in "[a-zß0-9][a-zß0-9._-]{0,19}",
        title in option::of("\\PC{0,20}"),
        metadata in option::of(prop_oneof![Just(json!(null)), Just(json!({"a": [1, -2, 2.5, "x", true]}))]),
        goes_on: bool,
        at_once in 1_usize..5,
        mut steps in vec(steps(), 1..6),
    ) -> Draft {
        for (nth, step) in steps.iter_mut().enumerate() {
            step.id = format!("s{nth}");
        }
        let mut draft = Draft::new(name);
        draft.title = title;
        draft.metadata = metadata.map(|metadata| Payload::encode(&metadata).unwrap());
        draft.continue_on_compensation_failure = goes_on;
        draft.compensation_concurrency = at_once;
        draft.steps = steps;
        draft
    }
}

/// Pieces of definitions, right and wrong, thrown together.
fn scraps() -> impl Strategy<Value = String> {
    let scraps = [
        "name: ",
        "steps: ",
        "- ",
        "id: ",
        "action: ",
        "{",
        "}",
        "[",
        "]",
        "http: ",
        "url: ",
        "\"",
        "'",
        "\n",
        "\n  ",
        "    ",
        "retry: ",
        "count: ",
        "30s",
        "1e9",
        "-1",
        "null",
        "~",
        "*a",
        "&a ",
        "<<: ",
        "!!str ",
        "---\n",
        "depends_on: ",
        "headers: ",
        "http://x",
        "\t",
        "ä",
        "\u{0}",
        ", ",
        ": ",
        "|",
        ">",
        "#",
        "%",
        "@",
        "timeout: ",
        "delays: ",
        "99999999999999999999",
    ];
    vec(prop::sample::select(scraps.to_vec()), 0..60).prop_map(|scraps| scraps.concat())
}

/// Trees made of the right words, mostly in wrong places.
fn trees() -> impl Strategy<Value = Value> {
    let words = [
        "name",
        "title",
        "metadata",
        "steps",
        "id",
        "depends_on",
        "action",
        "compensate",
        "timeout",
        "queue_timeout",
        "retry",
        "concurrency",
        "http",
        "worker",
        "queue",
        "url",
        "method",
        "headers",
        "count",
        "delay",
        "backoff",
        "max_delay",
        "delays",
        "jitter",
        "http://x/",
        "30s",
        "list",
        "exponential",
        "GET",
        "a",
        "",
        "compensation_concurrency",
    ];
    let word = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u32..5).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(word.clone(), inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

/// A definition with one of its values replaced by such a tree.
fn spoilt() -> impl Strategy<Value = Value> {
    (drafts(), trees(), any::<prop::sample::Index>()).prop_map(|(draft, tree, which)| {
        let mut whole = Declaration::show(&draft);
        let count = count(&whole);
        replace(&mut whole, &mut which.index(count), tree);
        whole
    })
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Whether the value that stands at this number was found and replaced.
fn replace(value: &mut Value, number: &mut usize, tree: Value) -> bool {
    if *number == 0 {
        *value = tree;
        return true;
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, number, tree.clone())),
        Value::Object(fields) => fields.values_mut().any(|field| replace(field, number, tree.clone())),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_shown_is_read_as_the_same(draft in drafts()) {
        let shown = Declaration::show(&draft).to_string();
        for format in [Format::Json, Format::Yaml] {
            let read = Declaration::read(shown.as_bytes(), format);
            prop_assert_eq!(read.as_ref(), Ok(&draft), "{:?}", shown);
        }
        prop_assert!(changes(&draft, &draft).is_empty());
    }

    #[test]
    fn every_definition_has_a_plan(draft in drafts()) {
        let steps = draft.steps.len();
        let plan = Plan::of(&draft.check().unwrap());
        prop_assert_eq!(plan.forward.iter().flatten().count(), steps, "every step runs once");
        prop_assert_eq!(plan.rollbacks.len(), steps);
        for rollback in plan.rollbacks {
            let undone = |steps: &[Vec<backstitch::StepId>]| steps.concat().contains(&rollback.step);
            prop_assert!(!undone(&rollback.said_no.undone), "who said no is not undone");
            let known = undone(&rollback.in_doubt.undone) || rollback.in_doubt.nothing_to_undo.contains(&rollback.step);
            prop_assert!(known, "who is in doubt is undone, or cannot be");
        }
    }

    #[test]
    fn no_bytes_bring_the_reader_down(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Declaration::read(&bytes, Format::Yaml);
        let _ = Declaration::read(&bytes, Format::Json);
    }

    #[test]
    fn what_is_spoilt_is_refused_by_place_or_still_makes_sense(tree in spoilt()) {
        match Declaration::read(tree.to_string().as_bytes(), Format::Json) {
            Ok(draft) => {
                let again = Declaration::read(Declaration::show(&draft).to_string().as_bytes(), Format::Json);
                prop_assert_eq!(again.as_ref(), Ok(&draft));
                prop_assert!(draft.check().is_ok());
            }
            Err(problems) => {
                prop_assert!(problems.0.iter().all(|problem| !problem.place.is_empty() && !problem.message.is_empty()));
            }
        }
    }

    #[test]
    fn no_scraps_bring_the_reader_down(text in scraps()) {
        for format in [Format::Yaml, Format::Json] {
            if let Err(problems) = Declaration::read(text.as_bytes(), format) {
                prop_assert!(!problems.0.is_empty());
            }
        }
    }
}
