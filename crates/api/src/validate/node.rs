//! A JSON value at its path in a document.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use backstitch::kernel::parse_duration;
use backstitch::{Payload, Problems};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ValidationErrors, nearest, written_duration};

/// The longest part of a given text that a path or a message repeats, in characters.
const MAX_QUOTED: usize = 64;

/// A value as it is written, its path, and where its errors go.
///
/// The value stays text until a method reads it: what is passed on verbatim is never taken apart.
pub struct Node<'a> {
    path: String,
    json: &'a str,
    errors: &'a ValidationErrors,
}

impl<'a> Node<'a> {
    /// A whole document, which must be JSON.
    #[must_use]
    pub fn root(json: &'a str, errors: &'a ValidationErrors) -> Self {
        Self { path: String::new(), json: json.trim_ascii(), errors }
    }

    /// The value as JSON text.
    #[must_use]
    pub fn json(&self) -> &'a str {
        self.json
    }

    /// The value as a tree.
    #[must_use]
    pub fn value(&self) -> Value {
        self.parse().unwrap_or_default()
    }

    /// The value verbatim.
    #[must_use]
    pub fn payload(&self) -> Option<Payload> {
        self.parse()
    }

    /// Its path in the document.
    #[must_use]
    pub fn path(&self) -> &str {
        if self.path.is_empty() { self.errors.root() } else { &self.path }
    }

    /// Reports an error of this value.
    pub fn wrong(&self, message: impl Into<String>) {
        self.errors.add(self.path(), message);
    }

    /// Reports the errors of another check, with paths from the document's root.
    pub fn report(&self, problems: Problems) {
        self.errors.add_unless_known(problems);
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.json == "null"
    }

    /// Whether it is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
    }

    fn parse<'de, T: Deserialize<'de>>(&self) -> Option<T>
    where
        'a: 'de,
    {
        serde_json::from_str(self.json).ok()
    }

    fn unexpected(&self, wanted: &str) {
        if self.is_null() && !self.path.is_empty() {
            self.wrong(format!("is empty: write {wanted}, or leave the field out"));
        } else {
            self.wrong(format!("is {}: write {wanted}", kind(self.json)));
        }
    }

    /// Text.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let text = self.parse();
        if text.is_none() {
            self.unexpected("text, in quotes if it looks like something else");
        }
        text
    }

    /// `true` or `false`.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        let flag = self.parse();
        if flag.is_none() {
            self.unexpected("true or false");
        }
        flag
    }

    /// A whole number that fits the type.
    #[must_use]
    pub fn number<T: TryFrom<i128>>(&self) -> Option<T> {
        let number = integer(self.json);
        let fitting = number.and_then(|number| T::try_from(number).ok());
        if fitting.is_none() {
            match number {
                Some(number) if number > 0 => self.wrong(format!("is {number}, which is too large")),
                _ if self.is_number() => {
                    let least = if T::try_from(-1).is_ok() { "" } else { ", 0 or more" };
                    self.wrong(format!("is {}: write a whole number{least}", quoted(self.json)));
                }
                _ => self.unexpected("a whole number"),
            }
        }
        fitting
    }

    /// A duration with its unit.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let Some(text) = self.parse::<String>() else {
            self.unexpected("a duration like 200ms, 30s or 5m");
            return None;
        };
        let duration = parse_duration(&text);
        if let Err(why) = &duration {
            let text = quoted(&text);
            self.wrong(format!("`{text}` is not a duration ({why}): write it like 200ms, 30s or 5m"));
        }
        duration.ok()
    }

    /// A duration with its unit, or a number of seconds.
    #[must_use]
    pub fn duration_or_seconds(&self) -> Option<Duration> {
        let duration = written_duration(&self.value());
        if let Err(why) = &duration {
            self.wrong(why.as_str());
        }
        duration.ok()
    }

    /// One of these words, in any case.
    #[must_use]
    pub fn one_of<T: Clone>(&self, choices: &[(&str, T)]) -> Option<T> {
        let written = self.text()?;
        let chosen = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(&written));
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let meant =
                nearest(&written, words.iter().copied()).map(|meant| format!(": did you mean `{meant}`?"));
            let (written, known) = (quoted(&written), words.join(", "));
            self.wrong(format!("`{written}` is not one of {known}{}", meant.unwrap_or_default()));
        }
        chosen.map(|(_, choice)| choice.clone())
    }

    /// What this type reads by itself.
    #[must_use]
    pub fn decoded<T: DeserializeOwned>(&self) -> Option<T> {
        match serde_json::from_str(self.json) {
            Ok(value) => Some(value),
            Err(why) => {
                let message = why.to_string();
                // The position is one within this value, which the path names already.
                self.wrong(message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message));
                None
            }
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn items(&self) -> Option<Vec<Node<'a>>> {
        let Some(items) = self.parse::<Vec<&'a RawValue>>() else {
            self.unexpected("a list");
            return None;
        };
        let node = |(position, item): (usize, &'a RawValue)| Node {
            path: format!("{}[{position}]", self.path),
            json: item.get(),
            errors: self.errors,
        };
        Some(items.into_iter().enumerate().map(node).collect())
    }

    /// An object with these fields and no others.
    #[must_use]
    pub fn object(&self, known: &[&str]) -> Option<Object<'a>> {
        let object = self.any_object()?;
        for name in object.fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let path = object.path_of(name);
            let advice = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if known.is_empty() => "there are no fields here".to_owned(),
                None => format!("the fields here are {}", known.join(", ")),
            };
            self.errors.add(path, format!("is not known: {advice}"));
        }
        Some(object)
    }

    /// An object whose field names the author chooses.
    #[must_use]
    pub fn any_object(&self) -> Option<Object<'a>> {
        let Some(Fields { by_name, repeated }) = self.parse::<Fields<'a>>() else {
            self.unexpected("an object with fields");
            return None;
        };
        let object = Object { path: self.path.clone(), fields: by_name, errors: self.errors };
        for name in repeated {
            let message = format!("`{}` is there twice: give it once", quoted(&name));
            self.errors.add(object.path_of(&name), message);
        }
        Some(object)
    }
}

/// An object's fields.
pub struct Object<'a> {
    path: String,
    fields: BTreeMap<String, &'a RawValue>,
    errors: &'a ValidationErrors,
}

impl<'a> Object<'a> {
    /// A field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.fields.get(name)?;
        Some(self.node(name, value))
    }

    /// Whether there is a field of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// A field that must be there.
    #[must_use]
    pub fn required(&self, name: &str) -> Option<Node<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.missing(name);
        }
        field
    }

    /// Reports that a field is missing.
    pub fn missing(&self, name: &str) {
        self.wrong(name, "is missing");
    }

    /// Reports an error of a field, which may be missing.
    pub fn wrong(&self, name: &str, message: impl Into<String>) {
        self.errors.add(self.path_of(name), message);
    }

    /// All fields by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Node<'a>)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), self.node(name, value)))
    }

    /// The fields of other names than these, verbatim.
    #[must_use]
    pub fn rest(&self, known: &[&str]) -> BTreeMap<String, Payload> {
        let rest = self.entries().filter(|(name, _)| !known.contains(name));
        rest.filter_map(|(name, node)| Some((name.to_owned(), node.payload()?))).collect()
    }

    fn node(&self, name: &str, value: &'a RawValue) -> Node<'a> {
        Node { path: self.path_of(name), json: value.get(), errors: self.errors }
    }

    fn path_of(&self, name: &str) -> String {
        // A path shows an empty name too.
        let name = if name.is_empty() { "\"\"".to_owned() } else { quoted(name) };
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }
}

/// The fields of an object, and the names that it has more than once.
struct Fields<'a> {
    by_name: BTreeMap<String, &'a RawValue>,
    repeated: Vec<String>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields { by_name: BTreeMap::new(), repeated: Vec::new() };
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            match fields.by_name.entry(name) {
                Entry::Vacant(field) => {
                    field.insert(value);
                }
                Entry::Occupied(field) => fields.repeated.push(field.key().clone()),
            }
        }
        Ok(fields)
    }
}

fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "empty",
        _ => "a number",
    }
}

/// A whole number. JSON has one kind of number: `30`, `30.0` and `3e1` are the same.
#[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough to be exact")]
fn integer(json: &str) -> Option<i128> {
    // From 2^53 on not every whole number is a double.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    match serde_json::from_str(json).ok()? {
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Some(number.into()),
            (None, Some(number)) => Some(number.into()),
            (None, None) => {
                let number = number.as_f64()?;
                (number.fract() == 0.0 && number.abs() < LARGEST_EXACT).then_some(number as i128)
            }
        },
        _ => None,
    }
}

/// A given text, short and on one line. Quotes stay as they are: messages put it into backticks.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars().take(MAX_QUOTED) {
        if matches!(char, '"' | '\'') {
            shown.push(char);
        } else {
            shown.extend(char.escape_debug());
        }
    }
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors_of(json: &str, read: impl FnOnce(&Node<'_>)) -> Vec<String> {
        let errors = ValidationErrors::of("body");
        read(&Node::root(json, &errors));
        let Problems(found) = errors.into_problems();
        found.into_iter().map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
    }

    fn number<T: TryFrom<i128> + fmt::Debug>(json: &str) -> Result<T, String> {
        let errors = ValidationErrors::of("body");
        let number = Node::root(json, &errors).number();
        errors.or_else(number).map_err(|Problems(found)| found[0].message.clone())
    }

    #[test]
    fn a_whole_number_is_read_however_it_is_written() {
        for thirty in ["30", "30.0", "3e1", " 30 "] {
            assert_eq!(number(thirty), Ok(30_u32), "{thirty}");
        }
        assert_eq!(number("-0.7e1"), Ok(-7_i64));
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        for (json, message) in [
            ("1.5", "is 1.5: write a whole number, 0 or more"),
            ("-1", "is -1: write a whole number, 0 or more"),
            ("4294967296", "is 4294967296, which is too large"),
            ("1e300", "is 1e300: write a whole number, 0 or more"),
            ("\"1\"", "is text: write a whole number"),
            ("null", "is empty: write a whole number"),
        ] {
            assert_eq!(number::<u32>(json), Err(message.to_owned()));
        }
    }

    #[test]
    fn a_list_is_no_object_and_an_object_no_list() {
        assert_eq!(
            errors_of("[1]", |node| drop(node.any_object())),
            ["body: is a list: write an object with fields"]
        );
        assert_eq!(errors_of("{}", |node| drop(node.items())), ["body: is an object: write a list"]);
    }

    #[test]
    fn unknown_and_repeated_fields_are_errors_with_their_paths() {
        let found = errors_of(r#"{"a": 1, "other": 2, "ulr": 3, "\u0061": 4}"#, |node| {
            drop(node.object(&["a", "url"]));
        });
        let expected = [
            "a: `a` is there twice: give it once",
            "other: is not known: the fields here are a, url",
            "ulr: is not known: did you mean `url`?",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_payload_is_kept_as_it_is_written() {
        let errors = ValidationErrors::of("body");
        let written = r#"{"big":123456789012345678901234567890, "tax": 1.10}"#;
        let document = format!(r#"{{"payload": {written} }}"#);
        let object = Node::root(&document, &errors).any_object().unwrap();
        assert_eq!(object.get("payload").unwrap().payload().unwrap().as_str(), written);
    }
}
