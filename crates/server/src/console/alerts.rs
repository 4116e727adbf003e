//! What needed a person: what was sent, when, over which channel, and who has taken it upon them.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::alerts::{self, Acknowledged, Acknowledgement, Cursor, Listed};

use super::address::address;
use super::done::Done;
use super::form::Form;
use super::page::{Frame, Section, page};
use super::parts::{Id, Mood, State as Shown, When};
use super::visitor::Visitor;
use crate::app::App;
use crate::http::{AlertInPath, Query};
use crate::problem::{Kind, Problem};
use crate::routes::acknowledge_alert;

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "alerts.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
    next: Option<String>,
}

struct Row {
    id: i64,
    state: Shown,
    kind: String,
    /// The saga that it is about.
    saga: Option<String>,
    definition: Option<String>,
    service: Option<String>,
    error: String,
    code: Option<String>,
    occurred: When,
    notices: Vec<Told>,
    acknowledged: Option<(When, String, String)>,
}

/// How one recipient was told.
struct Told {
    state: Shown,
    at: Option<When>,
    error: Option<String>,
}

/// Alerts, newest first.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let cursor: Option<Cursor> =
        query.read("cursor", |text| text.parse().ok(), "use the address of the page before")?;
    query.finish("cursor")?;
    let found = alerts::list(&app.engine, LIMIT, cursor).await?;
    let mut frame = Frame::new(&app, visitor, Section::Alerts, "Alerts").after(done);
    if cursor.is_none() {
        frame = frame.live("/live");
    }
    Ok(page(&List {
        rows: found.items.into_iter().map(|listed| Row::of(&frame, listed)).collect(),
        next: found.next.map(|next| address("/alerts", &[("cursor", Some(&next.to_string()))])),
        frame,
    }))
}

/// Somebody has seen it. Who did so first stays, and whoever comes later is told.
pub(super) async fn acknowledge(
    State(app): State<App>,
    AlertInPath(id): AlertInPath,
    visitor: Visitor,
    form: Form,
) -> Result<Response, Problem> {
    let (by, note) = (visitor.name(), form.text("note").trim());
    if acknowledge_alert(&app, id, by, note).await? == Acknowledged::Before
        && let Some(first) = first_of(&app, id).await?
        && (first.by.as_str(), first.note.as_str()) != (by, note)
    {
        let detail = format!(
            "{} looks after it since {}: nothing was done, and what you wrote was not kept; look again and decide anew",
            first.by,
            backstitch_api::time::rfc3339(first.at)
        );
        return Err(Problem::new(Kind::StaleForm, detail));
    }
    Ok(Done::Acknowledged.and_back_to("/alerts"))
}

/// Who has acknowledged it.
async fn first_of(app: &App, id: i64) -> Result<Option<Acknowledgement>, Problem> {
    let from = id.saturating_add(1).to_string().parse().ok();
    let found = alerts::list(&app.engine, 1, from).await?.items;
    Ok(found.into_iter().find(|listed| listed.id == id).and_then(|listed| listed.acknowledged))
}

impl Row {
    fn of(frame: &Frame, listed: Listed) -> Self {
        let Listed { id, alert, acknowledged, notices } = listed;
        let told = notices.into_iter().map(|notice| {
            let to = match &notice.recipient {
                Some(recipient) => format!("{} to {recipient}", notice.channel),
                None => notice.channel.clone(),
            };
            Told {
                state: match notice.notified_at {
                    Some(_) => Shown::new(to, "✓", Mood::Good),
                    None if notice.attempts == 0 => {
                        Shown::new(format_args!("{to}, sending"), "…", Mood::Quiet)
                    }
                    None => Shown::new(format_args!("{to}, tried {} times", notice.attempts), "↻", Mood::Bad),
                },
                at: notice.notified_at.map(|at| frame.when(at)),
                error: notice.last_error.filter(|_| notice.notified_at.is_none()),
            }
        });
        Self {
            id,
            state: match &acknowledged {
                Some(by) if by.is_resolution() => Shown::new("resolved", "✓", Mood::Good),
                Some(_) => Shown::new("acknowledged", "✓", Mood::Quiet),
                None => Shown::new("open", "!", Mood::Bad),
            },
            kind: alert.kind,
            saga: alert.tx_id.map(|saga| saga.to_string()),
            definition: alert.definition,
            service: alert.service,
            error: alert.error.message,
            code: alert.error.code,
            occurred: frame.when(alert.occurred_at),
            notices: told.collect(),
            acknowledged: acknowledged.map(|it| (frame.when(it.at), it.by, it.note)),
        }
    }
}
