//! The list of deliveries.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::kernel::delivery::Status;
use backstitch_modules::webhooks::{Filter, delivery_status, delivery_word};

use super::rows::Rows;
use super::{cursor, number};
use crate::app::App;
use crate::console::address::address;
use crate::console::page::{Frame, Section, page};
use crate::console::visitor::Visitor;
use crate::http::{Query, bad_query};
use crate::problem::Problem;

const LIMIT: usize = 50;

#[derive(Template)]
#[template(path = "webhooks/deliveries.html")]
struct List {
    frame: Frame,
    statuses: Vec<(&'static str, bool)>,
    subscription: String,
    event: String,
    is_filtered: bool,
    rows: Rows,
    next: Option<String>,
}

/// Deliveries, newest first.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let filter = Filter {
        status: status(&mut query)?,
        subscription_id: number(&mut query, "subscription")?,
        event_id: number(&mut query, "event")?,
    };
    let before = cursor(&mut query)?;
    query.finish("status, subscription, event or cursor")?;
    let found = app.webhooks.parts.deliveries.list(&filter, LIMIT, before).await?;
    let word = filter.status.map(delivery_word);
    let shown = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let (subscription, event) = (shown(filter.subscription_id), shown(filter.event_id));
    let next = found.next.map(|next| {
        address(
            "/webhooks/deliveries",
            &[
                ("status", word),
                ("subscription", Some(&subscription)),
                ("event", Some(&event)),
                ("cursor", Some(&next.to_string())),
            ],
        )
    });
    let mut frame = Frame::new(&app, visitor, Section::Webhooks, "Deliveries");
    if before.is_none() {
        frame = frame.live("/live");
    }
    Ok(page(&List {
        rows: Rows::of(&app, &frame, found.items).await?,
        statuses: Status::ALL.map(|it| (delivery_word(it), Some(it) == filter.status)).into(),
        is_filtered: word.is_some() || !subscription.is_empty() || !event.is_empty(),
        frame,
        subscription,
        event,
        next,
    }))
}

fn status(query: &mut Query) -> Result<Option<Status>, Problem> {
    let Some(text) = query.text("status").filter(|text| !text.is_empty()) else { return Ok(None) };
    let expected = "use Pending, InProgress, PendingRetry, Completed or DeadLettered";
    let found = delivery_status(&text);
    found.map(Some).ok_or_else(|| bad_query("status", &format!("is `{text}`: {expected}")))
}
