//! Who performs a declared step or action, for the description.

use backstitch_modules::http_call::methods;
use utoipa::openapi::schema::{ObjectBuilder, RefBuilder, Type};

use super::text::{CallHeaders, CallUrl, Name};
use backstitch_api::validate::schema::{Components, closed, collect, named, of};

const CALL: &str = "DefinitionCall";
const METHOD: &str = "DefinitionMethod";
const WORKER: &str = "DefinitionWorker";

/// A call of a service.
pub(super) fn call() -> RefBuilder {
    named(CALL)
}

/// A queue that workers outside take work from.
pub(super) fn worker() -> RefBuilder {
    named(WORKER)
}

pub(super) fn collect_performers(components: &mut Components) {
    let method = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(methods()));
    let method = method.description(Some("How a service is called; `POST` unless given."));
    let call = closed("A call of a service, up to 16 KiB.")
        .property("url", of::<CallUrl>())
        .property("method", named(METHOD))
        .property("headers", of::<CallHeaders>())
        .required("url")
        .examples([serde_json::json!({ "url": "http://127.0.0.1:7431/payment/charge" })]);
    let worker = closed("A queue that workers outside take work from.")
        .property("queue", of::<Name>())
        .required("queue")
        .examples([serde_json::json!({ "queue": "inventory" })]);
    components.push((METHOD.to_owned(), method.into()));
    components.push((CALL.to_owned(), call.into()));
    components.push((WORKER.to_owned(), worker.into()));
    collect::<CallUrl>(components);
    collect::<CallHeaders>(components);
    collect::<Name>(components);
}
