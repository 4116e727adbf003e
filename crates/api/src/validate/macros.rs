//! What the macros of this module expand to. Not for other use.

pub use backstitch::Payload;
pub use serde_json::json;
pub use utoipa::{PartialSchema, ToSchema};

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, SchemaType, Type};

use super::schema::with_description;
use super::{Input, Node, Object};

/// A schema, or a reference to one.
pub type SchemaOrRef = RefOr<Schema>;

/// The name of a field in JSON. One that is a keyword in Rust is written with `r#` there.
#[must_use]
pub const fn field_name(name: &'static str) -> &'static str {
    if let [b'r', b'#', plain @ ..] = name.as_bytes()
        && let Ok(plain) = std::str::from_utf8(plain)
    {
        return plain;
    }
    name
}

/// The object at this node, with these fields only, or with any.
#[must_use]
pub fn object<'a>(node: &Node<'a>, known: Option<&[&str]>) -> Option<Object<'a>> {
    known.map_or_else(|| node.any_object(), |known| node.object(known))
}

/// The schema of a request, made field by field.
pub struct RequestSchema {
    about: String,
    object: ObjectBuilder,
}

impl RequestSchema {
    /// One without fields; a closed one has no fields but its own.
    #[must_use]
    pub fn new(about: &[&str], closed: bool) -> Self {
        let others = AdditionalProperties::<Schema>::FreeForm(false);
        let object = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Object));
        let object = if closed { object.additional_properties(Some(others)) } else { object };
        Self { about: text_of(about), object }
    }

    /// Adds a field.
    #[must_use]
    pub fn field<T: Input>(self, name: &str, about: &[&str]) -> Self {
        let object = self.object.property(name, with_description(T::schema(), &text_of(about)));
        let object = if T::absent().is_none() { object.required(name) } else { object };
        Self { object, ..self }
    }

    /// With an example of the whole request.
    #[must_use]
    pub fn example(self, example: Value) -> Self {
        Self { object: self.object.examples([example]), ..self }
    }

    /// The schema.
    #[must_use]
    pub fn build(self) -> SchemaOrRef {
        self.object.description(Some(self.about)).into()
    }
}

/// The lines of a doc comment as text.
#[must_use]
pub fn text_of(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_is_an_ordinary_name_in_json() {
        assert_eq!(["r#type", "r", "name"].map(field_name), ["type", "r", "name"]);
    }
}
