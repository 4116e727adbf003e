//! How values of requests are read, and which schema describes them.

use backstitch::{Payload, Problems};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object as ObjectSchema, ObjectBuilder, Schema, SchemaType, Type};

use super::schema::{Components, collect, nullable, of};
use super::{Node, Object, ValidationErrors};
use crate::time::Time;

/// A value of a request. Reader, limits and schema are one implementation, so they cannot differ.
pub trait Input: Sized {
    /// Reads the value. Reports everything that is wrong with it to the node, and then gives nothing.
    fn read(node: &Node<'_>) -> Option<Self>;

    /// The value of a field that is left out; nothing where the field is required.
    #[must_use]
    fn absent() -> Option<Self> {
        None
    }

    /// The schema of a field of this type.
    fn schema() -> RefOr<Schema>;

    /// Adds the named schemas that [`Input::schema`] refers to.
    fn collect(components: &mut Components) {
        let _ = components;
    }
}

/// A value as far as it could be read, and the errors in the rest.
///
/// For checks that need more than the request, such as a setting of the server: their errors are reported with these.
#[derive(Debug)]
pub struct Partial<T> {
    /// The value; fields with errors are as if they were left out.
    pub value: Option<T>,
    /// The errors.
    pub errors: Problems,
}

/// Reads a document, which must be JSON.
///
/// # Errors
/// All errors in it; those of the whole document have the path `root`.
pub fn read<T: Input>(json: &str, root: &'static str) -> Result<T, Problems> {
    let errors = ValidationErrors::of(root);
    let value = T::read(&Node::root(json, &errors));
    errors.or_else(value)
}

/// Reads a document, which must be JSON, as far as it can be read.
#[must_use]
pub fn read_partially<T: Input>(json: &str, root: &'static str) -> Partial<T> {
    let errors = ValidationErrors::of(root);
    let value = T::read(&Node::root(json, &errors));
    Partial { value, errors: errors.into_problems() }
}

impl Object<'_> {
    /// Reads a field. One with an error is as if it was left out, so that the other fields are checked too.
    #[must_use]
    pub fn field<T: Input>(&self, name: &str) -> Option<T> {
        let absent = T::absent();
        if let Some(node) = self.get(name) {
            return T::read(&node).or(absent);
        }
        if absent.is_none() {
            self.missing(name);
        }
        absent
    }
}

impl Input for String {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.text()
    }

    fn schema() -> RefOr<Schema> {
        ObjectSchema::with_type(Type::String).into()
    }
}

impl Input for bool {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.flag()
    }

    fn schema() -> RefOr<Schema> {
        ObjectSchema::with_type(Type::Boolean).into()
    }
}

/// Any JSON, verbatim.
impl Input for Payload {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.payload()
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).into()
    }
}

impl Input for Time {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.text()?;
        node.decoded()
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }

    fn collect(components: &mut Components) {
        collect::<Self>(components);
    }
}

/// May be left out or `null`.
impl<T: Input> Input for Option<T> {
    fn read(node: &Node<'_>) -> Option<Self> {
        if node.is_null() { Some(None) } else { T::read(node).map(Some) }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn schema() -> RefOr<Schema> {
        nullable(T::schema())
    }

    fn collect(components: &mut Components) {
        T::collect(components);
    }
}

/// May be left out. `null` is an error, since it could be meant as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omittable<T>(pub Option<T>);

impl<T> Default for Omittable<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Input> Input for Omittable<T> {
    fn read(node: &Node<'_>) -> Option<Self> {
        T::read(node).map(|value| Self(Some(value)))
    }

    fn absent() -> Option<Self> {
        Some(Self(None))
    }

    fn schema() -> RefOr<Schema> {
        T::schema()
    }

    fn collect(components: &mut Components) {
        T::collect(components);
    }
}

/// A setting that `null` resets to its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// Left out: it stays as it is.
    #[default]
    Unchanged,
    /// `null`.
    Reset,
    /// A value of its own.
    Own(T),
}

impl<T: Input> Input for Setting<T> {
    fn read(node: &Node<'_>) -> Option<Self> {
        if node.is_null() { Some(Self::Reset) } else { T::read(node).map(Self::Own) }
    }

    fn absent() -> Option<Self> {
        Some(Self::Unchanged)
    }

    fn schema() -> RefOr<Schema> {
        nullable(T::schema())
    }

    fn collect(components: &mut Components) {
        T::collect(components);
    }
}
