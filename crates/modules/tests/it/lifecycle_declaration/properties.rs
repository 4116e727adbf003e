//! What holds for every machine and for every document.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstitch::kernel::lifecycle::draft::Allowed;
use backstitch::kernel::saga::draft::default_retry;
use backstitch::{Payload, Performer, Retry, secs};
use backstitch_modules::declaration::Format;
use backstitch_modules::lifecycles::{Draft, DraftAction, declaration};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

fn durations() -> impl Strategy<Value = Duration> {
    (1_u64..10_u64.pow(16)).prop_map(Duration::from_nanos)
}

/// How policies are written is the business of sagas; here it matters that they are kept.
fn retries() -> impl Strategy<Value = Retry> {
    let waits = vec![secs(1), secs(90)];
    prop::sample::select(vec![
        default_retry(),
        Retry::none(),
        Retry::exponential(7, secs(2)).with_jitter(20),
        Retry::after_each(waits),
    ])
}

fn performers() -> impl Strategy<Value = Performer> {
    let method = prop::sample::select(vec!["POST", "PUT", "PATCH", "DELETE", "GET"]);
    let calls = (method, "https?://[a-z]{1,9}(/[a-z0-9.%]{0,9})?").prop_map(|(method, url)| {
        let call = json!({"http": {"method": method, "url": url}});
        Performer::Call(Payload::encode(&call).unwrap())
    });
    let workers = "[a-zä0-9][a-zä0-9._-]{0,11}".prop_map(|queue| Performer::Worker { queue });
    prop_oneof![calls, workers]
}

/// What is done in a state, if anything is; where it leads follows from the machine.
fn actions() -> impl Strategy<Value = DraftAction> {
    let timing = (durations(), prop::option::of(durations()), retries());
    let done = (performers(), timing).prop_map(|(performer, (timeout, queue_timeout, retry))| DraftAction {
        timeout,
        queue_timeout: queue_timeout.filter(|_| performer.queue().is_some()),
        retry,
        ..DraftAction::performed_by(performer, "")
    });
    prop_oneof![Just(DraftAction::passing_to("")), done]
}

/// A state, as it is drawn.
#[derive(Clone, Debug)]
struct Drawn {
    action: Option<DraftAction>,
    skips: bool,
    can_fail: bool,
    pauses: bool,
    stuck_after: Option<Duration>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (option::of(actions()), any::<bool>(), any::<bool>(), any::<bool>(), option::of(durations())).prop_map(
        |(action, skips, can_fail, pauses, stuck_after)| Drawn {
            action,
            skips,
            can_fail,
            pauses,
            stuck_after,
        },
    )
}

prop_compose! {
    /// A line of states to an end, with side ways that skip one, pauses beside it, and failures.
    fn drafts()(
        name in "[a-zß0-9][a-zß0-9._-]{0,19}",
        title in option::of("\\PC{0,20}"),
        subject in option::of("[a-z]{1,8}(\\.[a-z]{1,8}){0,2}"),
        kinds in prop::collection::btree_set("[a-z_]{3,9}", 0..4),
        states in vec(drawn(), 1..8),
    ) -> Draft {
        let state = |nth: usize| format!("s{nth}");
        let end = states.len();
        let mut draft = Draft::new(name, state(0));
        draft.title = title;
        draft.subject = subject;
        draft.error_kinds = kinds.iter().filter(|kind| *kind != "internal").cloned().collect();
        draft.states = (0..=end).map(state).collect();
        draft.terminal = vec![state(end)];
        for (nth, drawn) in states.into_iter().enumerate() {
            let (here, next) = (state(nth), state(nth + 1));
            draft.edges.push((here.clone(), next.clone()));
            let to_skip = nth + 2 <= end && drawn.skips;
            if to_skip {
                draft.edges.push((here.clone(), state(nth + 2)));
            }
            let pause = format!("p{nth}");
            if drawn.pauses {
                draft.states.push(pause.clone());
                draft.edges.push((here.clone(), pause.clone()));
                draft.pause.insert(pause.clone(), here.clone());
            }
            let acts = drawn.action.as_ref().is_some_and(|action| action.performer.is_some());
            if drawn.can_fail || acts {
                draft.can_fail.push(here.clone());
            }
            if let Some(mut action) = drawn.action {
                action.next.insert("ok".to_owned(), next);
                let elsewhere = if drawn.pauses { pause } else { "failed".to_owned() };
                for kind in draft.error_kinds.iter().filter(|_| acts) {
                    action.next.insert(kind.clone(), elsewhere.clone());
                }
                draft.actions.insert(here.clone(), action);
            }
            if let Some(time) = drawn.stuck_after {
                draft.stuck_after.insert(here, Allowed(time));
            }
        }
        draft
    }
}

/// Trees made of the right words, mostly in wrong places.
fn trees() -> impl Strategy<Value = Value> {
    let words = [
        "name",
        "initial",
        "states",
        "terminal",
        "pause",
        "edges",
        "can_fail",
        "error_kinds",
        "actions",
        "next",
        "ok",
        "http",
        "worker",
        "queue",
        "url",
        "timeout",
        "retry",
        "stuck_after",
        "s0",
        "s1",
        "failed",
        "30s",
        "",
    ];
    let word = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(word.clone(), inner, 0..5).prop_map(|fields: BTreeMap<String, Value>| json!(fields)),
        ]
    })
}

/// The places of all values in a tree, as JSON pointers.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            for (nth, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{nth}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                pointers(field, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// A machine with one of its values replaced by such a tree.
fn spoilt() -> impl Strategy<Value = Value> {
    (drafts(), trees(), any::<prop::sample::Index>()).prop_map(|(draft, tree, which)| {
        let mut whole = declaration::show(&draft);
        let mut places = Vec::new();
        pointers(&whole, "", &mut places);
        *whole.pointer_mut(which.get::<String>(&places)).unwrap() = tree;
        whole
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_shown_is_read_as_the_same(draft in drafts()) {
        let shown = declaration::show(&draft).to_string();
        for format in [Format::Json, Format::Yaml] {
            let read = declaration::read(shown.as_bytes(), format);
            prop_assert_eq!(read.as_ref(), Ok(&draft), "{:?}", shown);
        }
    }

    #[test]
    fn what_is_spoilt_is_refused_by_place_or_still_makes_sense(tree in spoilt()) {
        match declaration::read(tree.to_string().as_bytes(), Format::Json) {
            Ok(draft) => {
                let again = declaration::read(declaration::show(&draft).to_string().as_bytes(), Format::Json);
                prop_assert_eq!(again.as_ref(), Ok(&draft));
                prop_assert!(draft.check().is_ok());
            }
            Err(problems) => {
                let told: BTreeSet<_> = problems.0.iter().map(|it| (&it.place, &it.message)).collect();
                prop_assert!(told.iter().all(|(place, message)| !place.is_empty() && !message.is_empty()));
                prop_assert_eq!(told.len(), problems.0.len(), "nothing is told twice: {:?}", problems);
            }
        }
    }

    #[test]
    fn no_bytes_bring_the_reader_down(bytes in vec(any::<u8>(), 0..300)) {
        let _ = declaration::read(&bytes, Format::Yaml);
        let _ = declaration::read(&bytes, Format::Json);
    }
}
