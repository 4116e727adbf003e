//! Retry policies as people write them: `3`, or what differs from the default policy.

use std::time::Duration;

use backstitch::kernel::retry::DEFAULT_CAP;
use backstitch::kernel::saga::draft::retry_problems;
use backstitch::{Backoff, Problem, Problems, Retry};
use backstitch_api::validate::{Node, Object, ValidationErrors};
use serde_json::{Map, Value, json};

use super::read::ROOT;
use super::show::duration;

/// The most by which waits can be longer, in percent.
pub const MAX_JITTER: u8 = 100;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Fixed,
    Exponential,
    List,
}

const SHAPES: [(&str, Shape); 3] =
    [("fixed", Shape::Fixed), ("exponential", Shape::Exponential), ("list", Shape::List)];

/// Reads a policy that stands at this place of another document.
///
/// # Errors
/// Every mistake at once.
pub(crate) fn read_at(place: &str, value: &Value, default: &Retry) -> Result<Retry, Problems> {
    let errors = ValidationErrors::of(ROOT);
    let document = json!({ "retry": value }).to_string();
    let policy = Node::root(&document, &errors).object(&["retry"]);
    let policy = policy.and_then(|fields| read(&fields.required("retry")?, default));
    let around = |problem: Problem| Problem { place: format!("{place}.{}", problem.place), ..problem };
    let policy = errors
        .or_else(policy)
        .map_err(|Problems(found)| Problems(found.into_iter().map(around).collect()))?;
    match retry_problems(&format!("{place}.retry"), &policy) {
        found if found.is_empty() => Ok(policy),
        found => Err(Problems(found)),
    }
}

/// Reads a policy; what it does not say is as in the default one.
pub(super) fn read(node: &Node<'_>, default: &Retry) -> Option<Retry> {
    if node.is_number() {
        return Some(Retry { count: node.number()?, ..default.clone() });
    }
    let fields = node.object(&["count", "delay", "backoff", "max_delay", "delays", "jitter", "within"])?;
    let count = fields.get("count").and_then(|count| count.number());
    let delay = fields.get("delay").and_then(|delay| delay.duration());
    let max_delay = fields.get("max_delay").and_then(|longest| longest.duration());
    let delays = fields.get("delays").and_then(|waits| waits.items());
    let delays = delays.map(|waits| waits.iter().filter_map(Node::duration).collect::<Vec<_>>());
    let jitter_percent = fields.get("jitter").and_then(|percent| jitter(&percent)).unwrap_or(0);
    let within = fields.get("within").and_then(|time| time.duration());

    let shape = shape(&fields, default)?;
    let first = delay.unwrap_or_else(|| first_wait(default));
    let (backoff, usual_count) = match shape {
        Shape::Fixed => (Backoff::Fixed(first), default.count),
        Shape::Exponential => {
            // A long first wait is not shortened by a limit that nobody wrote.
            let cap = max_delay.unwrap_or_else(|| longest_wait(default).max(first));
            (Backoff::Exponential { base: first, cap }, default.count)
        }
        Shape::List => {
            fields.required("delays")?;
            let waits = delays?;
            let each = u32::try_from(waits.len()).unwrap_or(u32::MAX);
            (Backoff::List(waits), each)
        }
    };
    Some(Retry { count: count.unwrap_or(usual_count), backoff, jitter_percent, within })
}

fn shape(fields: &Object<'_>, default: &Retry) -> Option<Shape> {
    let shape = match fields.get("backoff") {
        Some(written) => written.one_of(&SHAPES)?,
        None if fields.has("delays") => Shape::List,
        None if matches!(default.backoff, Backoff::Exponential { .. }) => Shape::Exponential,
        None => Shape::Fixed,
    };
    for (name, fits, message) in [
        ("delays", shape == Shape::List, "is for `backoff: list`; write `delay`"),
        ("max_delay", shape == Shape::Exponential, "is for `backoff: exponential`"),
        ("delay", shape != Shape::List, "is not for a list of waits: `delays` says all of them"),
    ] {
        if let Some(field) = fields.get(name).filter(|_| !fits) {
            field.wrong(message);
        }
    }
    Some(shape)
}

fn first_wait(policy: &Retry) -> Duration {
    match &policy.backoff {
        Backoff::Fixed(delay) => *delay,
        Backoff::Exponential { base, .. } => *base,
        Backoff::List(waits) => waits.first().copied().unwrap_or_default(),
    }
}

fn longest_wait(policy: &Retry) -> Duration {
    match &policy.backoff {
        Backoff::Exponential { cap, .. } => *cap,
        Backoff::Fixed(_) | Backoff::List(_) => DEFAULT_CAP,
    }
}

fn jitter(field: &Node<'_>) -> Option<u8> {
    let percent = field.number()?;
    if percent > MAX_JITTER {
        field.wrong(format!("is {percent} percent; the limit is {MAX_JITTER}"));
    }
    Some(percent)
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
    if let Some(time) = retry.within {
        say("within", duration(time));
    }
    Value::Object(fields)
}
