//! `GET /v1/admin/alerts`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::SagaId;
use backstitch_modules::alerts::{self, Cursor, Listed, Notice};
use serde::Serialize;

use crate::app::App;
use crate::http::{Query, json};
use crate::problem::{Described, Problem};
use crate::time::{Time, rfc3339};

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
    /// Every recipient there is, with how telling it went.
    notices: Vec<NoticeItem<'a>>,
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
            notices: listed.notices.iter().map(NoticeItem::of).collect(),
        }
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
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
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
