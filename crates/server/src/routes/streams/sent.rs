//! An event as it is sent in a stream, for the description.

use utoipa::openapi::schema::{OneOfBuilder, Schema, Type};
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

/// One event of a lifecycle's stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written field by field")]
pub(in crate::routes) struct SentLifecycleEvent {
    /// Its number: `Last-Event-ID` resumes after it.
    id: String,
    /// Its type, as in `lifecycle.transitioned`.
    event: String,
    data: LifecycleEventAsText,
}

/// One event of the stream of everything.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written field by field")]
pub(in crate::routes) struct SentEventOfAll {
    /// Its type, as in `step.succeeded`.
    event: String,
    data: AnyEventAsText,
}

/// A saga's event, as JSON.
struct EventAsText;
/// A lifecycle's event, as JSON.
struct LifecycleEventAsText;
/// One of both, as JSON.
struct AnyEventAsText;

fn text_of(content: impl Into<RefOr<Schema>>) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .content_media_type("application/json")
        .content_schema(Some(content))
        .into()
}

impl PartialSchema for EventAsText {
    fn schema() -> RefOr<Schema> {
        text_of(Ref::from_schema_name("Event"))
    }
}

impl PartialSchema for LifecycleEventAsText {
    fn schema() -> RefOr<Schema> {
        text_of(Ref::from_schema_name("LifecycleEvent"))
    }
}

impl PartialSchema for AnyEventAsText {
    fn schema() -> RefOr<Schema> {
        let either = ["Event", "LifecycleEvent"].map(Ref::from_schema_name);
        let either = either.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item);
        text_of(Schema::OneOf(either.build()))
    }
}

impl ToSchema for EventAsText {}
impl ToSchema for LifecycleEventAsText {}
impl ToSchema for AnyEventAsText {}
