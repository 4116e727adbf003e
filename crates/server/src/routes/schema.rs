//! Parts of the schemas that are written by hand, because `derive(ToSchema)` cannot say what the server checks.

use backstitch::kernel::mistakes::MAX_TITLE_LEN;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, ObjectBuilder, RefBuilder, Schema, Type,
};

/// Schemas by name, as `ToSchema::schemas` collects them.
pub(super) type Components = Vec<(String, RefOr<Schema>)>;

/// Collects the schema of this type.
pub(super) fn collect<T: ToSchema>(components: &mut Components) {
    components.push((T::name().into(), T::schema()));
}

/// A reference to the schema of this name.
pub(super) fn named(name: &str) -> RefBuilder {
    RefBuilder::new().ref_location_from_schema_name(name)
}

/// A reference to the schema of this type.
pub(super) fn of<T: ToSchema>() -> RefBuilder {
    named(&T::name())
}

/// A reference to the schema of this type, with what it means here.
pub(super) fn described<T: ToSchema>(about: &str) -> RefBuilder {
    of::<T>().description(Some(about))
}

/// An object that has no fields but those it is given.
pub(super) fn closed(about: &str) -> ObjectBuilder {
    let none = AdditionalProperties::<Schema>::FreeForm(false);
    ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(none)).description(Some(about))
}

/// Values by name.
pub(super) fn by_name<T: ToSchema>(about: &str, values: RefBuilder, most: usize) -> ObjectBuilder {
    let names: Schema = AllOfBuilder::new().item(of::<T>()).into();
    let object = ObjectBuilder::new().schema_type(Type::Object).property_names(Some(names));
    object.additional_properties(Some(values)).max_properties(Some(most)).description(Some(about))
}

/// A list in which nothing is there twice.
pub(super) fn set_of<T: ToSchema>(about: &str) -> ArrayBuilder {
    ArrayBuilder::new().items(of::<T>()).unique_items(true).description(Some(about))
}

/// A whole number.
pub(super) fn whole_number(about: &str, least: u32, most: u32) -> ObjectBuilder {
    let number = ObjectBuilder::new().schema_type(Type::Integer).description(Some(about));
    number.minimum(Some(least)).maximum(Some(most))
}

/// What people read.
pub(super) fn title() -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX_TITLE_LEN));
    text.description(Some("What people read, up to 512 bytes."))
}
