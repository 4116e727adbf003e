//! How the server and its sagas are doing.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use backstitch::{Cursor, Error, Filter, STUCK_AFTER};
use serde::Serialize;

use super::sagas::list::Item;
use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Kind, Problem};

/// How long the store may take to answer for the server to be ready.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// How long numbers wait for what only the store knows.
const MEASURED_WITHIN: Duration = Duration::from_secs(1);

/// One word about the server.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Word {
    /// `ok`.
    status: &'static str,
}

const OK: Word = Word { status: "ok" };

/// Whether the process runs.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, description = "It runs", body = Word)))]
pub(super) async fn live() -> Response {
    json(StatusCode::OK, &OK)
}

/// Whether requests can be answered: the store answers, and the server is not shutting down.
#[utoipa::path(get, path = "/health/ready", tag = "health", responses(
    (status = 200, description = "It is ready", body = Word),
    (status = 503, description = "It is not", body = Described, content_type = "application/problem+json")))]
pub(super) async fn ready(State(app): State<App>) -> Result<Response, Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::shutting_down());
    }
    let (all, newest) = (Filter::default(), Cursor { before: None, limit: 1 });
    match tokio::time::timeout(READY_WITHIN, app.engine.list(&all, &newest)).await {
        Ok(answer) => answer.map(|_| json(StatusCode::OK, &OK)).map_err(Problem::from),
        Err(_) => Err(Problem::new(Kind::Unavailable, "the database does not answer: ask again in a moment")),
    }
}

/// How the sagas are doing.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Health {
    /// `ok`, or `attention` when something is stuck, failed or waits for a definition, or a message has waited to be sent
    /// for longer than the threshold.
    status: &'static str,
    /// How many sagas are in each status that is not a good end.
    active: BTreeMap<&'static str, u64>,
    /// Sagas that have been active for longer than the threshold with nothing due, longest first.
    stuck: Vec<Item>,
    /// Sagas that wait for a definition that this server does not have.
    unregistered: Vec<Unregistered>,
    /// Sagas under way in this process.
    under_way: usize,
    /// How long the oldest message has waited to be sent, an alert for one; `null` when none waits.
    #[schema(minimum = 0)]
    oldest_outbox_seconds: Option<f64>,
}

/// Sagas that wait for a definition.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Unregistered {
    definition: String,
    version: u32,
    sagas: u64,
}

/// How the sagas are doing: what is active, stuck, failed or waits for a definition.
#[utoipa::path(get, path = "/v1/health", tag = "health",
    params(("stuck_after" = Option<String>, Query, description = "How long a saga may be active with nothing due, and a message may wait to be sent; 10m unless given")),
    responses((status = 200, description = "How they are doing", body = Health),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json")))]
pub(super) async fn health(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let duration = |text: &str| humantime::parse_duration(text).ok();
    let stuck_after = query.read("stuck_after", duration, "use a duration like 10m")?.unwrap_or(STUCK_AFTER);
    query.finish("stuck_after")?;
    let found = app.engine.health(stuck_after).await?;
    let failed = found.active.get(&backstitch::Status::Failed).copied().unwrap_or_default();
    let waiting = outbox_age(&app).await?;
    let late = waiting.is_some_and(|age| age > stuck_after);
    let well = found.stuck.is_empty() && found.unregistered.is_empty() && failed == 0 && !late;
    let health = Health {
        status: if well { "ok" } else { "attention" },
        active: found.active.iter().map(|(status, count)| (status.as_str(), *count)).collect(),
        stuck: found.stuck.into_iter().map(Item::from).collect(),
        unregistered: found
            .unregistered
            .into_iter()
            .map(|it| Unregistered { definition: it.definition, version: it.version, sagas: it.sagas })
            .collect(),
        under_way: app.engine.active(),
        oldest_outbox_seconds: waiting.map(|age| age.as_secs_f64()),
    };
    Ok(json(StatusCode::OK, &health))
}

/// How long the oldest message has waited to be sent.
async fn outbox_age(app: &App) -> Result<Option<Duration>, Error> {
    let oldest = app.engine.oldest_outgoing().await?;
    Ok(oldest.map(|written| app.clock.now().since(written)))
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, description = "The numbers", content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    // A database that does not answer must not keep the other numbers from whoever looks for the reason.
    let age = match tokio::time::timeout(MEASURED_WITHIN, outbox_age(&app)).await {
        Ok(Ok(age)) => Some(age.unwrap_or_default()),
        Ok(Err(_)) | Err(_) => None,
    };
    ([(CONTENT_TYPE, text)], app.metrics.render(&app.engine, age))
}
