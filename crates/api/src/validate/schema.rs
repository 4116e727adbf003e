//! Parts of schemas for `/openapi.json`.

use backstitch::kernel::mistakes::MAX_TITLE_LEN;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, RefBuilder, Schema,
    SchemaType, Type,
};

/// Schemas by name, as `ToSchema::schemas` collects them.
pub type Components = Vec<(String, RefOr<Schema>)>;

/// Collects the schema of this type.
pub fn collect<T: ToSchema>(components: &mut Components) {
    components.push((T::name().into(), T::schema()));
}

/// A reference to the schema of this name.
#[must_use]
pub fn named(name: &str) -> RefBuilder {
    RefBuilder::new().ref_location_from_schema_name(name)
}

/// A reference to the schema of this type.
#[must_use]
pub fn of<T: ToSchema>() -> RefBuilder {
    named(&T::name())
}

/// A reference to the schema of this type, with what it means here.
#[must_use]
pub fn described<T: ToSchema>(about: &str) -> RefBuilder {
    of::<T>().description(Some(about))
}

/// An object that has no fields but those it is given.
#[must_use]
pub fn closed(about: &str) -> ObjectBuilder {
    let none = AdditionalProperties::<Schema>::FreeForm(false);
    ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(none)).description(Some(about))
}

/// Values by name.
#[must_use]
pub fn by_name<T: ToSchema>(about: &str, values: RefBuilder, most: usize) -> ObjectBuilder {
    let names: Schema = AllOfBuilder::new().item(of::<T>()).into();
    let object = ObjectBuilder::new().schema_type(Type::Object).property_names(Some(names));
    object.additional_properties(Some(values)).max_properties(Some(most)).description(Some(about))
}

/// A list in which nothing is there twice.
#[must_use]
pub fn set_of<T: ToSchema>(about: &str) -> ArrayBuilder {
    ArrayBuilder::new().items(of::<T>()).unique_items(true).description(Some(about))
}

/// A whole number.
#[must_use]
pub fn whole_number(about: &str, least: u32, most: u32) -> ObjectBuilder {
    let number = ObjectBuilder::new().schema_type(Type::Integer).description(Some(about));
    number.minimum(Some(least)).maximum(Some(most))
}

/// Text of this pattern with so many characters.
#[must_use]
pub fn text(pattern: impl Into<String>, least: usize, most: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    text.min_length((least > 0).then_some(least)).max_length(Some(most))
}

/// One of these words.
#[must_use]
pub fn words<const COUNT: usize>(words: [&'static str; COUNT]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
}

/// Text by name.
#[must_use]
pub fn map_of_texts(about: &str, names: ObjectBuilder, values: ObjectBuilder, most: usize) -> RefOr<Schema> {
    let names: Schema = names.into();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(Some(names))
        .additional_properties(Some(values))
        .max_properties(Some(most))
        .description(Some(about))
        .into()
}

/// What people read.
#[must_use]
pub fn title() -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_TITLE_LEN));
    text.description(Some("What people read, up to 512 bytes."))
}

/// This schema with a description of what it means here.
#[must_use]
pub fn with_description(schema: RefOr<Schema>, about: &str) -> RefOr<Schema> {
    if about.is_empty() {
        return schema;
    }
    let about = about.to_owned();
    match schema {
        RefOr::Ref(mut reference) => {
            reference.description = about;
            reference.into()
        }
        RefOr::T(mut schema) => {
            match &mut schema {
                Schema::Object(object) => object.description = Some(about),
                Schema::Array(array) => array.description = Some(about),
                Schema::OneOf(one_of) => one_of.description = Some(about),
                Schema::AllOf(all_of) => all_of.description = Some(about),
                Schema::AnyOf(any_of) => any_of.description = Some(about),
                // The enum of the library may grow.
                _ => {}
            }
            RefOr::T(schema)
        }
    }
}

/// This schema, or `null`.
#[must_use]
pub fn nullable(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            if let SchemaType::Type(only) = object.schema_type {
                object.schema_type = SchemaType::Array(vec![only, Type::Null]);
            }
            object.into()
        }
        schema => {
            let null = ObjectBuilder::new().schema_type(Type::Null);
            OneOfBuilder::new().item(null).item(schema).into()
        }
    }
}
