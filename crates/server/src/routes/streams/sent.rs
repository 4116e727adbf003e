//! An event as it is sent in a stream, for the description.

use utoipa::openapi::schema::{Schema, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// One event of a stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written field by field")]
pub(in crate::routes) struct SentEvent {
    /// Its number, where there is one: `Last-Event-ID` resumes after it.
    id: Option<String>,
    /// Its type, as in `step.succeeded`.
    event: String,
    data: EventAsText,
}

/// The event, as JSON.
struct EventAsText;

impl PartialSchema for EventAsText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .content_media_type("application/json")
            .content_schema(Some(Ref::from_schema_name("Event")))
            .into()
    }
}

impl ToSchema for EventAsText {}
