//! Applies or discards the staged version of a definition.

use axum::extract::State;
use axum::response::Response;

use super::place;
use crate::app::App;
use crate::console::documents;
use crate::console::form::Form;
use crate::http::NameInPath;
use crate::problem::Problem;
use crate::routes::Definitions;

/// New sagas take the version that the page showed as staged.
pub(in crate::console) async fn apply(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    form: Form,
) -> Result<Response, Problem> {
    documents::apply::<Definitions>(&app, &name, &form, &place(&name)).await
}

/// It is forgotten.
pub(in crate::console) async fn discard(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    form: Form,
) -> Result<Response, Problem> {
    documents::discard::<Definitions>(&app, &name, &form, &place(&name)).await
}
