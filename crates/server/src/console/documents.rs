//! How documents are shown, compared, applied and discarded on their pages.

use axum::response::Response;
use serde::Serialize;

use super::done::Done;
use super::form::Form;
use super::line_diff::LineDiff;
use crate::app::App;
use crate::problem::Problem;
use crate::routes::DeclaredKind;

/// A document as its author could have written it.
pub(super) fn written(document: &impl Serialize) -> String {
    // Cannot fail: it is JSON whatever it says.
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// What applying the staged document would change.
pub(super) fn difference<T: Serialize>(active: Option<&T>, staged: &T) -> LineDiff {
    LineDiff::of(&active.map(written).unwrap_or_default(), &written(staged))
}

/// What was staged on the page is taken from now on.
pub(super) async fn apply<K: DeclaredKind>(
    app: &App,
    name: &str,
    form: &Form,
    place: &str,
) -> Result<Response, Problem> {
    let staged = staged_as_shown::<K>(app, name, form).await?;
    K::apply(app, name, staged).await?;
    Ok(Done::Applied.and_back_to(place))
}

/// What was staged on the page is forgotten.
pub(super) async fn discard<K: DeclaredKind>(
    app: &App,
    name: &str,
    form: &Form,
    place: &str,
) -> Result<Response, Problem> {
    let staged = staged_as_shown::<K>(app, name, form).await?;
    K::discard(app, name, staged).await?;
    Ok(Done::Discarded.and_back_to(place))
}

/// The staged version, if it is still the one that the page showed.
async fn staged_as_shown<K: DeclaredKind>(
    app: &App,
    name: &str,
    form: &Form,
) -> Result<Option<u32>, Problem> {
    K::refuse_the_servers_own(name)?;
    let staged = K::staged(app, name).await?;
    form.was_made_for(&staged.map_or_else(|| "nothing staged".to_owned(), |staged| staged.to_string()))?;
    Ok(staged)
}
