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

/// The forms of these answers and requests, for the description: the types that are read and written are those of
/// `backstitch_modules::orders`.
pub(in crate::routes) mod described {
    #![expect(dead_code, reason = "they describe what other types read and write")]

    use super::super::super::duration::{WaitText, WrittenDuration};
    use super::super::super::text::HttpUrl;
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

    /// A change of the services: what is not named stays.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(min_properties = 1, example = json!({ "endpoints": { "payment": { "url": "http://127.0.0.1:7431/payment/charge" } } }))]
    pub(in crate::routes) struct ServicesChange {
        /// Each service once, in the order they are to be called.
        #[schema(value_type = Option<BTreeSet<Service>>, min_items = 3, max_items = 3)]
        order: Option<Vec<String>>,
        #[serde(default)]
        endpoints: EndpointChanges,
    }

    /// Where services are from now on.
    #[derive(Default, serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    struct EndpointChanges {
        #[schema(value_type = EndpointChange, required = false)]
        payment: Option<EndpointChange>,
        #[schema(value_type = EndpointChange, required = false)]
        inventory: Option<EndpointChange>,
        #[schema(value_type = EndpointChange, required = false)]
        logistics: Option<EndpointChange>,
    }

    /// A change of where a service is.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    struct EndpointChange {
        /// Called to do its part.
        #[schema(value_type = Option<HttpUrl>, example = "http://127.0.0.1:7431/payment/charge")]
        url: Option<String>,
        /// Called to undo it.
        #[schema(value_type = Option<HttpUrl>, example = "http://127.0.0.1:7431/payment/refund")]
        rollback_url: Option<String>,
        /// How often it is called again: a number of retries, or a policy. `0` turns retries off.
        #[schema(value_type = RetryChange, required = false)]
        retry: Option<RetryChange>,
    }

    /// Retries of a service, all within its timeout: how many, or a policy.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(untagged)]
    #[schema(as = ServiceRetry)]
    enum RetryChange {
        Count(RetryCount),
        Exponential(ExponentialRetry),
        Fixed(FixedRetry),
        List(ListRetry),
    }

    /// Attempts after the first.
    #[derive(serde::Deserialize, ToSchema)]
    #[schema(as = ServiceRetryCount, maximum = 1000)]
    struct RetryCount(u32);

    /// Waits that double. `Retry-After` is honoured if it is longer.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(as = ServiceExponentialRetry, example = json!({ "count": 3, "delay": "1s" }))]
    struct ExponentialRetry {
        /// Attempts after the first.
        #[schema(maximum = 1000)]
        count: u32,
        /// The first wait; `1s` unless given.
        #[schema(value_type = WaitText, required = false)]
        delay: Option<String>,
        #[schema(value_type = Exponential, required = false)]
        backoff: Option<String>,
        /// The longest wait.
        #[schema(value_type = WaitText, required = false)]
        max_delay: Option<String>,
        /// Waits are longer by up to this many percent.
        #[schema(value_type = u32, required = false, maximum = 100)]
        jitter: Option<u32>,
    }

    /// Waits that are all the same. `Retry-After` is honoured if it is longer.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(as = ServiceFixedRetry, example = json!({ "count": 3, "delay": "1s", "backoff": "fixed" }))]
    struct FixedRetry {
        /// Attempts after the first.
        #[schema(maximum = 1000)]
        count: u32,
        /// The wait; `1s` unless given.
        #[schema(value_type = WaitText, required = false)]
        delay: Option<String>,
        #[schema(value_type = Fixed)]
        backoff: String,
        /// Waits are longer by up to this many percent.
        #[schema(value_type = u32, required = false, maximum = 100)]
        jitter: Option<u32>,
    }

    /// Waits one by one. `Retry-After` is honoured if it is longer.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(as = ServiceListRetry, example = json!({ "delays": ["1s", "5s"] }))]
    struct ListRetry {
        /// Attempts after the first; as many as there are waits unless given.
        #[schema(value_type = u32, required = false, maximum = 1000)]
        count: Option<u32>,
        #[schema(value_type = List, required = false)]
        backoff: Option<String>,
        #[schema(value_type = Vec<WaitText>, min_items = 1, max_items = 1000)]
        delays: Vec<String>,
        /// Waits are longer by up to this many percent.
        #[schema(value_type = u32, required = false, maximum = 100)]
        jitter: Option<u32>,
    }

    /// Waits that double.
    #[derive(ToSchema)]
    #[schema(as = ExponentialBackoff, rename_all = "snake_case")]
    enum Exponential {
        Exponential,
    }

    /// Waits that are all the same.
    #[derive(ToSchema)]
    #[schema(as = FixedBackoff, rename_all = "snake_case")]
    enum Fixed {
        Fixed,
    }

    /// Waits one by one.
    #[derive(ToSchema)]
    #[schema(as = ListBackoff, rename_all = "snake_case")]
    enum List {
        List,
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

    /// A change of timeouts: what is not named stays.
    #[derive(serde::Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[schema(min_properties = 1, example = json!({ "payment": "45s" }))]
    pub(in crate::routes) struct TimeoutsChange {
        #[schema(value_type = WrittenDuration, required = false)]
        payment: Option<WrittenDuration>,
        #[schema(value_type = WrittenDuration, required = false)]
        inventory: Option<WrittenDuration>,
        #[schema(value_type = WrittenDuration, required = false)]
        logistics: Option<WrittenDuration>,
    }
}
