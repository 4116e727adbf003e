//! The requests that every setting of orders takes, and what they and their answers look like.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use backstitch_modules::orders::{Setting, Standing};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::definitions::{InFlight, in_flight};
use crate::app::App;
use crate::auth::Holder;
use crate::http::{Query, json};
use crate::problem::Problem;

/// A change that new orders take from now on.
#[derive(Serialize)]
struct Applied<T> {
    #[serde(flatten)]
    standing: Standing<T>,
    version: u32,
    in_flight: Vec<InFlight>,
}

/// What is active and what is staged, without tokens where the caller may not see them.
pub(super) async fn show<S: Setting>(
    app: &App,
    query: Query,
    holder: Option<&Holder>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let standing = app.orders.setting::<S>().await?;
    let sees_tokens = Holder::sees_secrets(holder);
    Ok(json(StatusCode::OK, &if sees_tokens { standing } else { standing.masked::<S>() }))
}

/// Stages a change in place of what was staged before.
pub(super) async fn stage<S: Setting>(app: &App, query: Query, change: S::Body) -> Result<Response, Problem> {
    query.finish("")?;
    Ok(json(StatusCode::OK, &app.orders.stage_setting::<S>(change).await?))
}

/// Lets new orders take the staged change.
pub(super) async fn apply<S: Setting>(app: &App, query: Query) -> Result<Response, Problem> {
    let expected = expected_revision(query)?;
    let applied = app.orders.apply_setting::<S>(expected.as_deref()).await?;
    let standing = app.orders.setting::<S>().await?;
    let in_flight = in_flight(&applied.in_flight);
    Ok(json(StatusCode::OK, &Applied { standing, version: applied.version, in_flight }))
}

/// Forgets the staged change.
pub(super) async fn discard<S: Setting>(app: &App, query: Query) -> Result<Response, Problem> {
    let expected = expected_revision(query)?;
    app.orders.discard_setting::<S>(expected.as_deref()).await?;
    Ok(json(StatusCode::OK, &app.orders.setting::<S>().await?))
}

/// The revision that is to be applied or discarded; whatever is staged unless given.
fn expected_revision(mut query: Query) -> Result<Option<String>, Problem> {
    let expected = query.text("revision");
    query.finish("revision")?;
    Ok(expected)
}

/// The forms of these answers, for the description: the types that are read and written are those of
/// `backstitch_modules::orders`.
pub(in crate::routes) mod described {
    #![expect(dead_code, reason = "they describe what other types read and write")]

    use super::{BTreeMap, InFlight, ToSchema};

    /// One of the services that orders need.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    enum Service {
        Payment,
        Inventory,
        Logistics,
    }

    /// Where a service is.
    #[derive(ToSchema)]
    struct Endpoint {
        /// Called to do its part.
        url: String,
        /// Called to undo it.
        rollback_url: String,
        /// How often it is called again, within its timeout; absent where it is called once.
        #[schema(value_type = RetryPolicy, required = false)]
        retry: Option<RetryPolicy>,
    }

    /// The services in the order they are called, with where they are.
    #[derive(ToSchema)]
    pub(in crate::routes) struct Services {
        order: Vec<Service>,
        /// By service.
        endpoints: BTreeMap<String, Endpoint>,
    }

    /// The services as they stand.
    #[derive(ToSchema)]
    pub(in crate::routes) struct ServicesStanding {
        /// What new orders take; `null` before anything was applied.
        active: Option<Services>,
        /// What waits to be applied.
        staged: Option<Services>,
        /// Of what is staged: whoever applies or discards it can say that they mean this and nothing else.
        #[schema(value_type = String, required = false, example = "9f86d081884c7d65")]
        revision: Option<String>,
    }

    /// Services that new orders take from now on.
    #[derive(ToSchema)]
    pub(in crate::routes) struct ServicesApplied {
        /// What new orders take.
        active: Services,
        /// What waits to be applied.
        staged: Option<Services>,
        /// Of what is staged: whoever applies or discards it can say that they mean this and nothing else.
        #[schema(value_type = String, required = false, example = "9f86d081884c7d65")]
        revision: Option<String>,
        /// The version of the definition that they are in.
        version: u32,
        /// Orders that have not ended, each with the version it was confirmed under and keeps.
        in_flight: Vec<InFlight>,
    }

    /// How often a service is called again, and after which waits.
    #[derive(ToSchema)]
    #[schema(as = ServiceRetryPolicy, example = json!({ "count": 3, "delay": "1s" }))]
    struct RetryPolicy {
        /// Attempts after the first.
        #[schema(value_type = u32, required = false)]
        count: Option<u32>,
        /// The wait, or the first wait.
        #[schema(value_type = String, required = false, example = "1s")]
        delay: Option<String>,
        /// `exponential`, `fixed` or `list`.
        #[schema(value_type = String, required = false, example = "exponential")]
        backoff: Option<String>,
        /// The longest wait; for `exponential` only.
        #[schema(value_type = String, required = false, example = "30s")]
        max_delay: Option<String>,
        /// The waits; for `list` only.
        #[schema(value_type = Vec<String>, required = false)]
        delays: Option<Vec<String>>,
        /// Waits are longer by up to this many percent.
        #[schema(value_type = u32, required = false)]
        jitter: Option<u32>,
    }

    /// How long each service may take, as in `45s` or `2500ms`.
    #[derive(ToSchema)]
    pub(in crate::routes) struct Timeouts {
        payment: String,
        inventory: String,
        logistics: String,
    }

    /// The timeouts as they stand.
    #[derive(ToSchema)]
    pub(in crate::routes) struct TimeoutsStanding {
        /// What new orders take.
        active: Timeouts,
        /// What waits to be applied.
        staged: Option<Timeouts>,
        /// Of what is staged: whoever applies or discards it can say that they mean this and nothing else.
        #[schema(value_type = String, required = false, example = "9f86d081884c7d65")]
        revision: Option<String>,
    }

    /// Timeouts that new orders take from now on.
    #[derive(ToSchema)]
    pub(in crate::routes) struct TimeoutsApplied {
        /// What new orders take.
        active: Timeouts,
        /// What waits to be applied.
        staged: Option<Timeouts>,
        /// Of what is staged: whoever applies or discards it can say that they mean this and nothing else.
        #[schema(value_type = String, required = false, example = "9f86d081884c7d65")]
        revision: Option<String>,
        /// The version of the definition that they are in.
        version: u32,
        /// Orders that have not ended, each with the version it was confirmed under and keeps.
        in_flight: Vec<InFlight>,
    }
}
