//! Finds what somebody has an id of, whatever it is an id of.

use axum::extract::State;
use axum::response::Response;
use backstitch::{Cursor, Filter, SagaId};

use super::done::see_other;
use crate::app::App;
use crate::http::Query;
use crate::problem::{Kind, Problem};

/// Leads to the page of what has this id.
pub(super) async fn find(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let id = query.text("id").unwrap_or_default();
    query.finish("id")?;
    let id = id.trim();
    if let Ok(saga) = id.parse::<SagaId>()
        && app.engine.load(saga).await?.is_some()
    {
        return Ok(see_other(&format!("/sagas/{saga}")));
    }
    // The ids that callers have of their own are found where they are listed.
    let filter = Filter { correlation_id: Some(id.to_owned()), ..Filter::default() };
    let found = app.engine.list(&filter, &Cursor { before: None, limit: 2 }).await?;
    match found.items.as_slice() {
        [] => Err(Problem::new(
            Kind::NotFound,
            format!(
                "nothing has the id `{id}`: ids of sagas are UUIDs, and correlation ids are found as they were given"
            ),
        )),
        [one] => Ok(see_other(&format!("/sagas/{}", one.id))),
        _ => {
            let mut query = form_urlencoded::Serializer::new(String::new());
            Ok(see_other(&format!("/sagas?{}", query.append_pair("correlation_id", id).finish())))
        }
    }
}
