//! What the API is, for programs and for people.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::app::App;
use crate::http::NameInPath;
use crate::problem::{Kind, Problem};

/// The page runs its own script and style, and talks to nobody but this server.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

/// The description of the API, in `OpenAPI`.
#[utoipa::path(get, path = "/openapi.json", tag = "docs", responses((status = 200, description = "The description", content_type = "application/json")))]
pub(super) async fn description(State(app): State<App>) -> impl IntoResponse {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], app.description.clone())
}

/// The API browser.
#[utoipa::path(get, path = "/docs", tag = "docs", responses((status = 200, description = "A page", content_type = "text/html")))]
pub(super) async fn browser() -> impl IntoResponse {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(CONTENT_TYPE, html), (CONTENT_SECURITY_POLICY, POLICY)], include_str!("docs.html"))
}

/// What a kind of problem means and what to do about it. The `type` of a problem leads here.
#[utoipa::path(get, path = "/docs/errors/{name}", tag = "docs", params(("name" = String, Path, description = "The kind's name")),
    responses((status = 200, description = "The page", content_type = "text/plain"), (status = 404, description = "No such kind", body = crate::problem::Described, content_type = "application/problem+json")))]
pub(super) async fn error_page(NameInPath(name): NameInPath) -> Result<impl IntoResponse, Problem> {
    let unknown = || Problem::new(Kind::NotFound, "no kind of problem has this name: check the address");
    let kind = Kind::parse(&name).ok_or_else(unknown)?;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(([(CONTENT_TYPE, text)], kind.page()))
}
