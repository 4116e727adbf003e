//! `GET /v1/doctor`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::app::App;
use crate::doctor::Diagnosis;
use crate::http::{Query, json};
use crate::problem::{Described, Problem};

/// Whether anything is stuck, lagging or misconfigured, and what to do about it. The answer comes within seconds also where
/// the database does not answer: what could not be looked at is a finding.
#[utoipa::path(get, path = "/v1/doctor", tag = "health",
    responses((status = 200, description = "What was found", body = Diagnosis),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json")))]
pub(super) async fn diagnose(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(json(StatusCode::OK, &*app.doctor.diagnose(&app).await))
}
