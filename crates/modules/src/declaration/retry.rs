//! Retry policies as people write them: `3`, or what differs from the default policy.

use std::time::Duration;

use backstitch::kernel::retry::DEFAULT_CAP;
use backstitch::{Backoff, Retry};
use serde_json::{Map, Value, json};

use super::show::duration;
use crate::reading::{Node, Object};

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Fixed,
    Exponential,
    List,
}

const SHAPES: [(&str, Shape); 3] =
    [("fixed", Shape::Fixed), ("exponential", Shape::Exponential), ("list", Shape::List)];

/// Reads a policy; what it does not say is as in the default one.
pub(super) fn read(node: &Node<'_>, default: &Retry) -> Option<Retry> {
    if node.value().is_number() {
        return Some(Retry { count: node.number()?, ..default.clone() });
    }
    let fields = node.object(&["count", "delay", "backoff", "max_delay", "delays", "jitter"])?;
    let shape = match fields.get("backoff") {
        Some(written) => written.one_of(&SHAPES)?,
        None if fields.has("delays") => Shape::List,
        None if matches!(default.backoff, Backoff::Exponential { .. }) => Shape::Exponential,
        None => Shape::Fixed,
    };
    refuse_unless(shape == Shape::List, &fields, "delays", "is for `backoff: list`; write `delay`");
    refuse_unless(shape == Shape::Exponential, &fields, "max_delay", "is for `backoff: exponential`");
    refuse_unless(
        shape != Shape::List,
        &fields,
        "delay",
        "is not for a list of waits: `delays` says all of them",
    );
    let backoff = match shape {
        Shape::Fixed => Backoff::Fixed(first_wait(&fields, default)),
        Shape::Exponential => exponential(&fields, default),
        Shape::List => Backoff::List(listed(&fields)?),
    };
    let listed = match &backoff {
        Backoff::List(waits) => u32::try_from(waits.len()).unwrap_or(u32::MAX),
        Backoff::Fixed(_) | Backoff::Exponential { .. } => default.count,
    };
    let count = fields.get("count").and_then(|count| count.number()).unwrap_or(listed);
    Some(Retry { count, backoff, jitter_percent: jitter(&fields) })
}

fn refuse_unless(fits: bool, fields: &Object<'_>, name: &str, message: &str) {
    if let Some(field) = fields.get(name).filter(|_| !fits) {
        field.wrong(message);
    }
}

fn first_wait(fields: &Object<'_>, default: &Retry) -> Duration {
    let usual = match &default.backoff {
        Backoff::Fixed(delay) => *delay,
        Backoff::Exponential { base, .. } => *base,
        Backoff::List(waits) => waits.first().copied().unwrap_or_default(),
    };
    fields.get("delay").and_then(|delay| delay.duration()).unwrap_or(usual)
}

fn exponential(fields: &Object<'_>, default: &Retry) -> Backoff {
    let base = first_wait(fields, default);
    let usual = match &default.backoff {
        Backoff::Exponential { cap, .. } => *cap,
        Backoff::Fixed(_) | Backoff::List(_) => DEFAULT_CAP,
    };
    let cap = fields.get("max_delay").and_then(|cap| cap.duration());
    // A long first wait is not shortened by a limit that nobody wrote.
    Backoff::Exponential { base, cap: cap.unwrap_or(usual.max(base)) }
}

fn listed(fields: &Object<'_>) -> Option<Vec<Duration>> {
    let waits = fields.required("delays")?.items()?;
    Some(waits.iter().filter_map(Node::duration).collect())
}

fn jitter(fields: &Object<'_>) -> u8 {
    let Some(field) = fields.get("jitter") else { return 0 };
    let percent: u8 = field.number().unwrap_or(0);
    if percent > 100 {
        field.wrong(format!("is {percent} percent; the limit is 100"));
    }
    percent
}

/// Everything a policy says.
pub(super) fn show(retry: &Retry) -> Value {
    let mut fields = Map::new();
    let mut say = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    say("count", json!(retry.count));
    match &retry.backoff {
        Backoff::Fixed(delay) => {
            say("backoff", json!("fixed"));
            say("delay", duration(*delay));
        }
        Backoff::Exponential { base, cap } => {
            say("backoff", json!("exponential"));
            say("delay", duration(*base));
            say("max_delay", duration(*cap));
        }
        Backoff::List(waits) => {
            say("backoff", json!("list"));
            say("delays", waits.iter().map(|wait| duration(*wait)).collect());
        }
    }
    if retry.jitter_percent > 0 {
        say("jitter", json!(retry.jitter_percent));
    }
    Value::Object(fields)
}
