//! `POST /v1/definitions/check`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::Saga;
use backstitch_modules::declaration::{Declaration, Plan};
use serde::Serialize;
use serde_json::Value;

use super::document::Document;
use super::written::Written;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Mistake, Problem};

/// What a definition will do, or what is wrong with it.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Checked {
    /// Every mistake, with its place; none when it can be declared.
    problems: Vec<Mistake>,
    /// The steps in the order they run, those of one stage at the same time.
    #[schema(value_type = Option<Vec<Vec<String>>>)]
    forward: Option<Value>,
    /// What is undone when a step fails, for every step: when its service said no, and when nobody knows.
    #[schema(value_type = Option<Vec<Object>>)]
    rollbacks: Option<Value>,
}

/// Looks what a definition would do, without declaring it.
#[utoipa::path(post, path = "/v1/definitions/check", tag = "definitions",
    request_body(content((Written = "application/json"), (Written = "application/yaml")), description = "The definition"),
    responses(
        (status = 200, description = "Its mistakes, or its plans", body = Checked),
        (status = 413, description = "Too large", body = Described, content_type = "application/problem+json"),
        (status = 415, description = "Neither YAML nor JSON", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn check(
    State(app): State<App>,
    query: Query,
    document: Document,
) -> Result<Response, Problem> {
    query.finish("")?;
    let saga = document.read(Declaration::read).and_then(|draft| Saga::declared(draft, &app.caller));
    let saga = match saga {
        Ok(saga) => saga,
        Err(problems) => {
            let told =
                |problem: backstitch::Problem| Mistake { place: problem.place, message: problem.message };
            let problems = problems.0.into_iter().map(told).collect();
            return Ok(json(StatusCode::OK, &Checked { problems, forward: None, rollbacks: None }));
        }
    };
    // Played through step by step, which takes a moment for long ones.
    let plan = tokio::task::spawn_blocking(move || Plan::of(saga.definition())).await;
    let plan = plan.map_err(|_| Problem::internal())?;
    let forward = serde_json::to_value(&plan.forward).ok();
    let rollbacks = serde_json::to_value(&plan.rollbacks).ok();
    Ok(json(StatusCode::OK, &Checked { problems: Vec::new(), forward, rollbacks }))
}
