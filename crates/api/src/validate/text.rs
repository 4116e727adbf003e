//! Text of requests.

use std::collections::BTreeMap;

use backstitch::{MAX_ATTRIBUTES, MAX_LABEL};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::schema::{Components, collect, map_of_texts, of};
use super::{Input, Node};

/// No store keeps a NUL character.
const NO_NUL: &str = r"^[^\x00]*$";
const WITHOUT_NUL_OR_BLANK: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";
/// The longest note, in characters. A name comes before it, and the stores have room for both.
const MAX_NOTE: usize = 4096;

/// Defines a kind of text: the pattern and the lengths that schemas say, and the check, which may know more.
///
/// The check is a function from text to `Result<(), String>`; its message follows the path of the text.
#[macro_export]
macro_rules! text_type {
    ($($(#[doc = $about:literal])* $kind:ident $pattern:expr, $least:expr, $most:expr, $example:literal, $check:expr;)*) => {$(
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        pub struct $kind(pub String);

        impl $crate::validate::Input for $kind {
            fn read(node: &$crate::validate::Node<'_>) -> Option<Self> {
                let text = node.text()?;
                let checked: Result<(), String> = $check(&text);
                checked.map_err(|why| node.wrong(why)).ok()?;
                Some(Self(text))
            }

            fn schema() -> $crate::validate::macros::SchemaOrRef {
                $crate::validate::schema::of::<Self>().into()
            }

            fn collect(components: &mut $crate::validate::schema::Components) {
                $crate::validate::schema::collect::<Self>(components);
            }
        }

        impl $crate::validate::macros::PartialSchema for $kind {
            fn schema() -> $crate::validate::macros::SchemaOrRef {
                let text = $crate::validate::schema::text($pattern, $least, $most);
                let about = $crate::validate::macros::text_of(&[$($about),*]);
                text.description(Some(about)).examples([$example]).into()
            }
        }

        impl $crate::validate::macros::ToSchema for $kind {
            fn name() -> ::std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }
        }
    )*};
}

text_type! {
    /// Text that something is found by: up to 512 bytes, without a NUL character.
    Label NO_NUL, 1, MAX_LABEL, "order-17", label;
    /// Text that says something: up to 512 bytes, not only blanks, without a NUL character.
    FilledLabel WITHOUT_NUL_OR_BLANK, 1, MAX_LABEL, "o-1", filled_label;
}

/// Checks text that something is found by.
fn label(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty: give one, or leave it out".to_owned());
    }
    label_or_nothing(text)
}

fn label_or_nothing(text: &str) -> Result<(), String> {
    if text.len() > MAX_LABEL {
        return Err(format!("has {} bytes; the limit is {MAX_LABEL}", text.len()));
    }
    if text.contains('\0') {
        return Err("contains a NUL character, which not every store can hold: leave it out".to_owned());
    }
    Ok(())
}

fn filled_label(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { label(text) }
}

/// What a person did, or why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note(pub String);

impl Note {
    /// Checks a note that comes from somewhere else than a request.
    ///
    /// # Errors
    /// When it is too long: what to do.
    pub fn check(note: &str) -> Result<(), String> {
        let length = note.chars().count();
        if length > MAX_NOTE { Err(format!("has {length} characters: use up to {MAX_NOTE}")) } else { Ok(()) }
    }
}

impl Input for Note {
    fn read(node: &Node<'_>) -> Option<Self> {
        let text = node.text()?;
        Self::check(&text).map_err(|why| node.wrong(why)).ok()?;
        Some(Self(text))
    }

    fn schema() -> RefOr<Schema> {
        note_schema().into()
    }
}

fn note_schema() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_NOTE))
}

/// A note that must say something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonNote(pub String);

impl Input for ReasonNote {
    fn read(node: &Node<'_>) -> Option<Self> {
        let Note(reason) = Note::read(node)?;
        if reason.trim().is_empty() {
            node.wrong("is empty: say who did what, and why; it stays in the log");
            return None;
        }
        Some(Self(reason))
    }

    fn schema() -> RefOr<Schema> {
        note_schema().min_length(Some(1_usize)).pattern(Some(r"\S")).into()
    }
}

/// What sagas are searched by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub BTreeMap<String, String>);

impl Input for Attributes {
    fn read(node: &Node<'_>) -> Option<Self> {
        let object = node.any_object()?;
        let count = object.entries().count();
        if count > MAX_ATTRIBUTES {
            node.wrong(format!("has {count} entries; the limit is {MAX_ATTRIBUTES}"));
            return None;
        }
        let attributes: Vec<_> = object.entries().map(|(name, value)| attribute(name, &value)).collect();
        attributes.into_iter().collect::<Option<_>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }

    fn collect(components: &mut Components) {
        collect::<Self>(components);
    }
}

fn attribute(name: &str, node: &Node<'_>) -> Option<(String, String)> {
    let value = node.text()?;
    let checked =
        label(name).map_err(|why| format!("its name {why}")).and_then(|()| label_or_nothing(&value));
    checked.map_err(|why| node.wrong(why)).ok()?;
    Some((name.to_owned(), value))
}

impl utoipa::PartialSchema for Attributes {
    fn schema() -> RefOr<Schema> {
        let (names, values) =
            (super::schema::text(NO_NUL, 1, MAX_LABEL), super::schema::text(NO_NUL, 0, MAX_LABEL));
        map_of_texts("What a saga can be searched by, by name.", names, values, MAX_ATTRIBUTES)
    }
}

impl utoipa::ToSchema for Attributes {}
