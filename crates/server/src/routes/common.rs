//! Answers and parameters that many routes have in common, described once.

use utoipa::openapi::path::Operation;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::{Components, ContentBuilder, Header, ObjectBuilder, Ref, RefOr};

use crate::auth::Access;

/// An answer that a route can have because of what all routes like it do.
struct Answer {
    status: &'static str,
    name: &'static str,
    description: &'static str,
    /// A header that always comes with it.
    header: Option<(&'static str, &'static str)>,
}

const fn answer(status: &'static str, name: &'static str, description: &'static str) -> Answer {
    Answer { status, name, description, header: None }
}

impl Answer {
    const fn with(self, header: &'static str, description: &'static str) -> Self {
        Self { header: Some((header, description)), ..self }
    }
}

/// Where a parameter can be wrong.
const BAD_REQUEST: Answer =
    answer("400", "BadRequest", "A parameter, a header or the form of the body is wrong");
/// Where a key is needed.
const KEYED: [Answer; 2] = [
    answer("401", "Unauthenticated", "An API key is needed, and none that is good was sent")
        .with("WWW-Authenticate", "How to send one"),
    answer("403", "Forbidden", "The API key has another role"),
];
/// Where a body is read.
const WITH_BODY: [Answer; 4] = [
    answer("408", "RequestTimeout", "The body did not arrive in time"),
    answer("413", "TooLarge", "The body is too large"),
    answer("415", "UnsupportedMediaType", "The body is of another type, or encoded"),
    answer("422", "InvalidFields", "The body does not fit"),
];
/// Where requests, or wrong keys, are counted.
const TOO_MANY: Answer = answer(
    "429",
    "TooManyRequests",
    "The key or the address has asked too often, or too many wrong keys came from the address",
)
.with("Retry-After", "Seconds to wait before asking again");
/// Everywhere.
const ALWAYS: [Answer; 2] = [
    answer("500", "Internal", "Something broke on the server's side"),
    answer(
        "503",
        "Unavailable",
        "The database does not answer, a transaction that is still open has the idempotency key, there are too many \
         connections, or the server is shutting down",
    )
    .with("Retry-After", "Seconds to wait before asking again"),
];

/// Adds what the operation did not say itself.
pub(super) fn complete(operation: &mut Operation, access: Access, limited: bool) {
    let has_body = operation.request_body.is_some();
    let has_parameters = operation.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty());
    let keyed = access != Access::Public;
    let mut add = |answer: &Answer| {
        let described = || RefOr::Ref(Ref::from_response_name(answer.name));
        operation.responses.responses.entry(answer.status.to_owned()).or_insert_with(described);
    };
    // What needs a key also refuses parameters that it does not know.
    if keyed || has_parameters || has_body {
        add(&BAD_REQUEST);
    }
    if keyed {
        KEYED.iter().for_each(&mut add);
    }
    if has_body {
        WITH_BODY.iter().for_each(&mut add);
    }
    if keyed || limited {
        add(&TOO_MANY);
    }
    ALWAYS.iter().for_each(add);
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter {
            parameter.schema.iter_mut().for_each(refuse_null);
        }
    }
}

/// A parameter that may be left out is not therefore `null`: an address holds no such value.
fn refuse_null(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(object)) = schema else { return };
    if let SchemaType::Array(types) = &mut object.schema_type {
        types.retain(|of| *of != Type::Null);
        if let [only] = types.as_slice() {
            object.schema_type = SchemaType::Type(only.clone());
        }
    }
}

/// Puts the answers where operations refer to them.
pub(super) fn describe(components: &mut Components) {
    for answer in [BAD_REQUEST, TOO_MANY].iter().chain(&KEYED).chain(&WITH_BODY).chain(&ALWAYS) {
        components.responses.insert(answer.name.to_owned(), RefOr::T(described(answer)));
    }
}

fn described(answer: &Answer) -> Response {
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response =
        ResponseBuilder::new().description(answer.description).content("application/problem+json", problem);
    if let Some((name, description)) = answer.header {
        let mut header = Header::new(ObjectBuilder::new().schema_type(Type::String));
        header.description = Some(description.to_owned());
        response = response.header(name, header);
    }
    response.build()
}
