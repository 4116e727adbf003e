//! A value at its place.

use std::time::Duration;

use backstitch::kernel::parse_duration;
use serde_json::{Map, Value};

use super::{Mistakes, nearest, written_duration};

/// The longest piece of somebody's text that a place or a message repeats, in characters.
const QUOTED: usize = 64;

/// A value, where it stands, and whom to tell when it is not what it should be.
pub(crate) struct Node<'a> {
    place: String,
    value: &'a Value,
    mistakes: &'a Mistakes,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub(crate) fn root(value: &'a Value, mistakes: &'a Mistakes) -> Self {
        Self { place: String::new(), value, mistakes }
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    pub(crate) fn place(&self) -> &str {
        if self.place.is_empty() { "the definition" } else { &self.place }
    }

    /// Tells that something is wrong here.
    pub(crate) fn wrong(&self, message: impl Into<String>) {
        self.mistakes.add(self.place(), message);
    }

    fn unexpected(&self, wanted: &str) {
        match self.value {
            Value::Null => self.wrong(format!("is empty: write {wanted}, or leave the field out")),
            other => self.wrong(format!("is {}: write {wanted}", kind(other))),
        }
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.unexpected("text, in quotes if it looks like something else");
        }
        text
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.unexpected("true or false");
        }
        flag
    }

    /// A whole number that fits.
    pub(crate) fn number<T: TryFrom<u64>>(&self) -> Option<T> {
        let number = self.value.as_u64().or_else(|| whole(self.value));
        let number = number.and_then(|number| T::try_from(number).ok());
        if number.is_none() {
            match self.value {
                Value::Number(number) if number.is_u64() => {
                    self.wrong(format!("is {number}, which is too large"));
                }
                Value::Number(number) => self.wrong(format!("is {number}: write a whole number, 0 or more")),
                _ => self.unexpected("a whole number"),
            }
        }
        number
    }

    /// A duration as people write it.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let Value::String(text) = self.value else {
            self.unexpected("a duration like 200ms, 30s or 5m");
            return None;
        };
        let duration = parse_duration(text);
        if let Err(why) = &duration {
            let text = quoted(text);
            self.wrong(format!("`{text}` is not a duration ({why}): write it like 200ms, 30s or 5m"));
        }
        duration.ok()
    }

    /// The same, or a number of seconds.
    pub(crate) fn duration_or_seconds(&self) -> Option<Duration> {
        let duration = written_duration(self.value);
        if let Err(why) = &duration {
            self.wrong(why.as_str());
        }
        duration.ok()
    }

    /// One of these words.
    pub(crate) fn one_of<T: Clone>(&self, choices: &[(&str, T)]) -> Option<T> {
        let written = self.text()?;
        let chosen = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(written));
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let meant =
                nearest(written, words.iter().copied()).map(|meant| format!(": did you mean `{meant}`?"));
            let (written, known) = (quoted(written), words.join(", "));
            self.wrong(format!("`{written}` is not one of {known}{}", meant.unwrap_or_default()));
        }
        chosen.map(|(_, choice)| choice.clone())
    }

    pub(crate) fn items(&self) -> Option<Vec<Node<'a>>> {
        let Value::Array(items) = self.value else {
            self.unexpected("a list");
            return None;
        };
        let at =
            |(nth, value)| Node { place: format!("{}[{nth}]", self.place), value, mistakes: self.mistakes };
        Some(items.iter().enumerate().map(at).collect())
    }

    /// An object with these fields and no others.
    pub(crate) fn object(&self, known: &[&str]) -> Option<Object<'a>> {
        let object = self.any_object()?;
        for name in object.fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let place = object.place_of(name);
            let advice = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("the fields here are {}", known.join(", ")),
            };
            self.mistakes.add(place, format!("is not known: {advice}"));
        }
        Some(object)
    }

    /// An object whose fields have names of the author's choice.
    pub(crate) fn any_object(&self) -> Option<Object<'a>> {
        let Value::Object(fields) = self.value else {
            self.unexpected("an object with fields");
            return None;
        };
        Some(Object { place: self.place.clone(), fields, mistakes: self.mistakes })
    }
}

/// An object's fields.
pub(crate) struct Object<'a> {
    place: String,
    fields: &'a Map<String, Value>,
    mistakes: &'a Mistakes,
}

impl<'a> Object<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.fields.get(name)?;
        Some(Node { place: self.place_of(name), value, mistakes: self.mistakes })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// A field that must be there.
    pub(crate) fn required(&self, name: &str) -> Option<Node<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.mistakes.add(self.place_of(name), "is missing");
        }
        field
    }

    /// All fields with their names.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        self.fields.iter().map(|(name, value)| {
            (name.as_str(), Node { place: self.place_of(name), value, mistakes: self.mistakes })
        })
    }

    fn place_of(&self, name: &str) -> String {
        // Even a field without a name is somewhere.
        let name = if name.is_empty() { "\"\"".to_owned() } else { quoted(name) };
        if self.place.is_empty() { name } else { format!("{}.{name}", self.place) }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// JSON has one kind of number: `30` and `30.0` are the same.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is whole, positive, and small enough to be exact"
)]
fn whole(value: &Value) -> Option<u64> {
    // From 2^53 on not every whole number is a double.
    let exact = 0.0..9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && exact.contains(number));
    number.map(|number| number as u64)
}

/// Somebody's text, short and on one line. Quotes are shown as they are: whoever shows it puts it into backticks.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars().take(QUOTED) {
        if matches!(char, '"' | '\'') {
            shown.push(char);
        } else {
            shown.extend(char.escape_debug());
        }
    }
    if text.chars().nth(QUOTED).is_some() {
        shown.push('…');
    }
    shown
}
