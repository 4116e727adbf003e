//! What changed from one definition to the next, by place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use backstitch::Draft;
use serde::Serialize;
use serde_json::{Map, Value};

use super::show::draft_in_full;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where, such as `steps[payment].timeout`.
    pub place: String,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What is different at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// It is there now.
    Added {
        /// As it is now.
        after: Value,
    },
    /// It is there no more.
    Removed {
        /// As it was.
        before: Value,
    },
    /// It says something else.
    Changed {
        /// As it was.
        before: Value,
        /// As it is now.
        after: Value,
    },
    /// A step stands elsewhere among the others.
    Moved {
        /// Its old place, from 1.
        from: usize,
        /// Its new place, from 1.
        to: usize,
    },
}

/// Everything that is different in `after`. What a step waits for is compared as it is worked out, written down or not.
#[must_use]
pub fn changes(before: &Draft, after: &Draft) -> Vec<Change> {
    let mut found = Found::default();
    let (before, after) = (Sides::of(before), Sides::of(after));
    found.objects("", &before.rest, &after.rest);
    found.steps(&before.steps, &after.steps);
    found.0
}

/// A definition with its steps taken apart.
struct Sides {
    rest: Map<String, Value>,
    steps: Vec<(String, Map<String, Value>)>,
}

impl Sides {
    fn of(draft: &Draft) -> Self {
        let Value::Object(mut rest) = draft_in_full(draft) else {
            return Self { rest: Map::new(), steps: Vec::new() };
        };
        let written = rest.remove("steps");
        let written =
            written.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
        let mut steps = Vec::new();
        for (position, (step, fields)) in draft.steps.iter().zip(written).enumerate() {
            let previous = || position.checked_sub(1).map(|at| draft.steps[at].id.clone());
            let parents: BTreeSet<String> = match &step.depends_on {
                Some(names) => names.iter().cloned().collect(),
                None => previous().into_iter().collect(),
            };
            let mut fields = fields.clone();
            fields.insert("depends_on".to_owned(), parents.into_iter().collect());
            steps.push((step.id.clone(), fields));
        }
        Self { rest, steps }
    }
}

#[derive(Default)]
struct Found(Vec<Change>);

impl Found {
    fn add(&mut self, place: impl Into<String>, what: What) {
        self.0.push(Change { place: place.into(), what });
    }

    fn objects(&mut self, place: &str, before: &Map<String, Value>, after: &Map<String, Value>) {
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            match (before.get(name), after.get(name)) {
                (Some(Value::Object(before)), Some(Value::Object(after))) => {
                    self.objects(&place, before, after);
                }
                (Some(before), Some(after)) if before != after => {
                    self.add(place, What::Changed { before: before.clone(), after: after.clone() });
                }
                (Some(before), None) => self.add(place, What::Removed { before: before.clone() }),
                (None, Some(after)) => self.add(place, What::Added { after: after.clone() }),
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }

    fn steps(&mut self, before: &[(String, Map<String, Value>)], after: &[(String, Map<String, Value>)]) {
        let places: BTreeMap<&str, usize> =
            after.iter().enumerate().map(|(at, (id, _))| (id.as_str(), at)).collect();
        let mut both = Vec::new();
        for (from, (id, old)) in before.iter().enumerate() {
            let place = format!("steps[{id}]");
            match places.get(id.as_str()) {
                None => self.add(place, What::Removed { before: Value::Object(old.clone()) }),
                Some(&to) => {
                    self.objects(&place, old, &after[to].1);
                    both.push((from, to));
                }
            }
        }
        let stayed = longest_rise(&both);
        for (from, to) in both.into_iter().filter(|pair| !stayed.contains(pair)) {
            let what = What::Moved { from: from + 1, to: to + 1 };
            self.add(format!("steps[{}]", after[to].0), what);
        }
        let known: BTreeSet<&str> = before.iter().map(|(id, _)| id.as_str()).collect();
        for (id, new) in after.iter().filter(|(id, _)| !known.contains(id.as_str())) {
            self.add(format!("steps[{id}]"), What::Added { after: Value::Object(new.clone()) });
        }
    }
}

/// As many as possible that stand in the same order on both sides; only the others have moved.
fn longest_rise(pairs: &[(usize, usize)]) -> BTreeSet<(usize, usize)> {
    // For each pair the length of the longest rise that ends with it, and the pair before it in that rise.
    let mut ends: Vec<(usize, Option<usize>)> = Vec::with_capacity(pairs.len());
    for (at, (_, to)) in pairs.iter().enumerate() {
        let before = (0..at).filter(|&earlier| pairs[earlier].1 < *to).max_by_key(|&earlier| ends[earlier].0);
        ends.push((before.map_or(1, |earlier| ends[earlier].0 + 1), before));
    }
    let mut rise = BTreeSet::new();
    let mut next = (0..ends.len()).max_by_key(|&at| ends[at].0);
    while let Some(at) = next {
        rise.insert(pairs[at]);
        next = ends[at].1;
    }
    rise
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match &self.what {
            What::Added { after } if after.is_object() => f.write_str("added"),
            What::Added { after } => write!(f, "added, {}", plain(after)),
            What::Removed { before } if before.is_object() => f.write_str("removed"),
            What::Removed { before } => write!(f, "removed, was {}", plain(before)),
            What::Changed { before, after } => write!(f, "{} → {}", plain(before), plain(after)),
            What::Moved { from, to } => write!(f, "moved from place {from} to {to}"),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
