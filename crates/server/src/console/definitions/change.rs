//! Lets new sagas take what is staged, or forgets it.

use axum::extract::State;
use axum::response::Response;

use super::place;
use crate::app::App;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::http::NameInPath;
use crate::problem::Problem;
use crate::routes::refuse_the_servers_own_definition;

/// New sagas take the version that the page showed as staged.
pub(in crate::console) async fn apply(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    form: Form,
) -> Result<Response, Problem> {
    refuse_the_servers_own_definition(&name)?;
    let staged = as_it_was_seen(&app, &name, &form).await?;
    app.engine.apply(&name, staged).await?;
    Ok(Done::Applied.and_back_to(&place(&name)))
}

/// It is forgotten.
pub(in crate::console) async fn discard(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    form: Form,
) -> Result<Response, Problem> {
    refuse_the_servers_own_definition(&name)?;
    let staged = as_it_was_seen(&app, &name, &form).await?;
    app.engine.discard(&name, staged).await?;
    Ok(Done::Discarded.and_back_to(&place(&name)))
}

async fn as_it_was_seen(app: &App, name: &str, form: &Form) -> Result<Option<u32>, Problem> {
    let staged = app.engine.declared(name).await?.and_then(|declared| declared.staged);
    form.was_made_for(&staged.map_or_else(|| "nothing staged".to_owned(), |staged| staged.to_string()))?;
    Ok(staged)
}
