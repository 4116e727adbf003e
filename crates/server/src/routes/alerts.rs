//! `GET /v1/admin/alerts` and `POST /v1/admin/alerts/{id}/acknowledge`

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use backstitch::SagaId;
use backstitch_api::request;
use backstitch_api::validate::{Note, Omittable};
use backstitch_modules::alerts::{self, Acknowledged, Acknowledgement, Cursor, Listed, Notice};
use serde::Serialize;

use crate::app::App;
use crate::auth::{Holder, check_note};
use crate::http::{AlertInPath, JsonOrNothing, Query, json};
use crate::problem::{Described, Kind, Problem};
use backstitch_api::time::{Time, rfc3339};

const LIMIT: usize = 100;
const MOST: usize = 1000;

/// A page of alerts.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct AlertPage<'a> {
    items: Vec<AlertItem<'a>>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// Something that needs a person, and who was told.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Alert)]
pub(super) struct AlertItem<'a> {
    /// Its number, by which it is acknowledged.
    id: i64,
    /// Tells it from all others; mails and webhooks carry it.
    key: &'a str,
    /// `rollback_failed` or `hook_failed`.
    kind: &'a str,
    /// The transaction.
    #[schema(value_type = Option<String>, format = Uuid)]
    tx_id: Option<SagaId>,
    definition: Option<&'a str>,
    /// The service that could not be rolled back.
    service: Option<&'a str>,
    error: &'a str,
    /// What programs tell apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    occurred_at: Time,
    /// When the first channel beyond the log had it, or the log where there is no other; `null` while none has.
    notified_at: Option<Time>,
    /// The channel that was.
    channel: Option<&'a str>,
    /// Who closed it: an operator, or the resolution of the step; `null` while it is open.
    acknowledged: Option<AcknowledgementItem<'a>>,
    /// Every recipient there is, with how telling it went.
    notices: Vec<NoticeItem<'a>>,
}

/// Who has taken an alert upon them.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AlertAcknowledgement)]
pub(super) struct AcknowledgementItem<'a> {
    at: Time,
    /// The name of the API key; `open` on a server without keys; `resolution` when the step was resolved.
    by: &'a str,
    note: &'a str,
}

request! {
    /// What somebody says about an alert that they acknowledge.
    pub(super) struct AcknowledgeRequest as "AcknowledgeAlert" example { "note": "ada looks after it" } {
        /// What the acknowledging person adds.
        note: Omittable<Note>,
    }
}

/// How one recipient was told.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AlertNotice)]
pub(super) struct NoticeItem<'a> {
    /// `log`, `email`, `webhook` or `file`.
    channel: &'a str,
    recipient: Option<&'a str>,
    notified_at: Option<Time>,
    attempts: u32,
    last_error: Option<&'a str>,
}

impl<'a> AlertItem<'a> {
    fn of(listed: &'a Listed) -> Self {
        let alert = &listed.alert;
        let told = first_told(&listed.notices);
        Self {
            id: listed.id,
            key: &alert.key,
            kind: &alert.kind,
            tx_id: alert.tx_id,
            definition: alert.definition.as_deref(),
            service: alert.service.as_deref(),
            error: &alert.error.message,
            code: alert.error.code.as_deref(),
            occurred_at: rfc3339(alert.occurred_at),
            notified_at: told.and_then(|notice| notice.notified_at).map(rfc3339),
            channel: told.map(|notice| notice.channel.as_str()),
            acknowledged: listed.acknowledged.as_ref().map(AcknowledgementItem::of),
            notices: listed.notices.iter().map(NoticeItem::of).collect(),
        }
    }
}

impl<'a> AcknowledgementItem<'a> {
    fn of(acknowledged: &'a Acknowledgement) -> Self {
        let Acknowledgement { by, note, at } = acknowledged;
        Self { at: rfc3339(*at), by, note }
    }
}

/// The log is no person: it counts only where nothing else is set.
fn first_told(notices: &[Notice]) -> Option<&Notice> {
    let told = || notices.iter().filter(|notice| notice.notified_at.is_some());
    let beyond_log = notices.iter().any(|notice| notice.channel != "log");
    told().filter(|notice| notice.channel != "log" || !beyond_log).min_by_key(|notice| notice.notified_at)
}

impl<'a> NoticeItem<'a> {
    fn of(notice: &'a Notice) -> Self {
        Self {
            channel: &notice.channel,
            recipient: notice.recipient.as_deref(),
            notified_at: notice.notified_at.map(rfc3339),
            attempts: notice.attempts,
            last_error: notice.last_error.as_deref(),
        }
    }
}

/// What needed a person, newest first: which service could not be rolled back, and who was told when.
#[utoipa::path(get, path = "/v1/admin/alerts", tag = "operations",
    params(
        ("limit" = Option<usize>, Query, description = "At most this many, 100 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<i64>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = AlertPage),
        (status = 400, description = "A parameter is wrong", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn list(State(app): State<App>, mut query: Query) -> Result<Response, Problem> {
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LIMIT);
    let cursor: Option<Cursor> =
        query.read("cursor", |text| text.parse().ok(), "use the next_cursor of the page before")?;
    query.finish("limit or cursor")?;
    let page = alerts::list(&app.engine, limit, cursor).await?;
    let items = page.items.iter().map(AlertItem::of).collect();
    Ok(json(StatusCode::OK, &AlertPage { items, next_cursor: page.next.map(|next| next.to_string()) }))
}

/// Whoever asks while nobody needs a key.
const OPEN: &str = "open";

/// Says that somebody has seen an alert and looks after it. The first who does so is kept; asking again changes nothing.
#[utoipa::path(post, path = "/v1/admin/alerts/{id}/acknowledge", tag = "operations", request_body = Option<AcknowledgeRequest>,
    params(("id" = i64, Path, description = "The alert", minimum = 1)),
    responses(
        (status = 204, description = "It is acknowledged, now or before"),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(super) async fn acknowledge(
    State(app): State<App>,
    AlertInPath(id): AlertInPath,
    query: Query,
    holder: Option<Extension<Holder>>,
    JsonOrNothing(AcknowledgeRequest { note }): JsonOrNothing<AcknowledgeRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let by = holder.as_ref().map_or(OPEN, |Extension(holder)| &holder.name);
    acknowledged(&app, id, by, &note.0.unwrap_or_default().0).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Keeps who has seen it, and says whether somebody had before.
pub(crate) async fn acknowledged(app: &App, id: i64, by: &str, note: &str) -> Result<Acknowledged, Problem> {
    check_note(note)?;
    match alerts::acknowledge(&app.engine, id, by, note).await? {
        kept @ (Acknowledged::Now | Acknowledged::Before) => Ok(kept),
        Acknowledged::Unknown => Err(Problem::new(
            Kind::AlertNotFound,
            format!("there is no alert {id}: GET /v1/admin/alerts lists them"),
        )),
    }
}
