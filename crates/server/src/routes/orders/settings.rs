//! What both kinds of settings are answered with.

use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::orders::Standing;
use serde::Serialize;

use super::super::definitions::{InFlight, in_flight};
use crate::http::json;

/// A change that new orders take from now on.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AppliedSettings)]
pub(crate) struct Applied<T> {
    /// What new orders take.
    #[schema(value_type = Object)]
    active: Option<T>,
    /// What waits to be applied.
    #[schema(value_type = Option<Object>)]
    staged: Option<T>,
    /// The version of the definition that they are in.
    version: u32,
    /// Orders that have not ended, each with the version it was confirmed under and keeps.
    in_flight: Vec<InFlight>,
}

/// Settings as they stand.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Settings {
    /// What new orders take; `null` before anything was applied.
    #[schema(value_type = Option<Object>)]
    #[expect(dead_code, reason = "describes what the products write themselves")]
    active: Option<()>,
    /// What waits to be applied.
    #[schema(value_type = Option<Object>)]
    #[expect(dead_code, reason = "describes what the products write themselves")]
    staged: Option<()>,
}

pub(super) fn applied<T: Serialize>(standing: Standing<T>, applied: &backstitch::Applied) -> Response {
    let Standing { active, staged } = standing;
    let in_flight = in_flight(&applied.in_flight);
    json(StatusCode::OK, &Applied { active, staged, version: applied.version, in_flight })
}
