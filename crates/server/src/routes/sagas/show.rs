//! `GET /v1/sagas/{id}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Error;

use super::view::SagaView;
use super::wait;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{Query, SagaInPath, json};
use crate::problem::{Described, Problem};

/// Everything about a saga, as it stands or at its end.
#[utoipa::path(get, path = "/v1/sagas/{id}", tag = "sagas",
    params(
        ("id" = String, Path, description = "The saga", format = Uuid),
        ("wait" = Option<u64>, Query, description = "Answer when the saga is at its end, or after so many seconds", maximum = 60),
        ("token" = Option<String>, Query, description = "The saga's stream token, instead of a key"),
    ),
    responses(
        (status = 200, description = "The saga", body = SagaView),
        (status = 400, description = "The id or a parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    leave: Leave,
    mut query: Query,
) -> Result<Response, Problem> {
    let wait = wait::asked(&mut query)?;
    query.text("token");
    query.finish("wait or token")?;
    let state = match wait {
        None => app.engine.load(id).await?.ok_or(Error::NotFound(id))?,
        Some(_) => wait::at_end(&app, &leave, app.engine.find(id).await?, wait).await?,
    };
    leave.still_given()?;
    Ok(json(StatusCode::OK, &SagaView::of(&state)))
}
