//! Finds what somebody has an id of, whatever it is an id of.

use std::collections::HashSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{Cursor, Filter, SagaId};
use backstitch_modules::lifecycles::{Error as LifecycleError, Standing};
use backstitch_modules::orders;
use backstitch_modules::webhooks::Error as WebhookError;

use super::address::address;
use super::done::see_other;
use super::page::{Frame, Section, page};
use super::parts::Id;
use super::visitor::Visitor;
use super::{lifecycles, sagas};
use crate::app::App;
use crate::http::Query;
use crate::problem::{Kind, Problem};

/// Things of one kind that are listed.
const LISTED: usize = 20;
/// Machines whose keys are looked at.
const MACHINES: usize = 200;

#[derive(Template)]
#[template(path = "find.html")]
struct Page {
    frame: Frame,
    id: String,
    hits: Vec<Hit>,
}

struct Hit {
    what: &'static str,
    name: String,
    /// What can be copied, beyond what was looked for.
    id: Option<String>,
    place: String,
}

/// Leads to the page of what has this id, or lists all that have it.
pub(super) async fn find(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let id = query.text("id").unwrap_or_default();
    query.finish("id")?;
    let id = id.trim();
    let mut hits = Vec::new();
    // No database keeps such a text, and one refuses to be asked for it.
    if !id.is_empty() && !id.contains('\0') {
        by_uuid(&app, id, &mut hits).await?;
        by_number(&app, id, &mut hits).await?;
        by_callers_id(&app, id, &mut hits).await?;
    }
    match hits.as_slice() {
        [] => Err(Problem::new(
            Kind::NotFound,
            format!(
                "nothing has the id `{id}`: sagas, orders and lifecycles have UUIDs, deliveries and messages numbers, and \
                 correlation ids, ids of orders and keys are found as they were given"
            ),
        )),
        [only] => Ok(see_other(&only.place)),
        _ => {
            let frame = Frame::new(&app, visitor, Section::None, format!("Found: {id}"));
            Ok(page(&Page { frame, id: id.to_owned(), hits }))
        }
    }
}

async fn by_uuid(app: &App, id: &str, hits: &mut Vec<Hit>) -> Result<(), Problem> {
    let Ok(uuid) = id.parse::<SagaId>() else { return Ok(()) };
    if let Some(saga) = app.engine.load(uuid).await? {
        hits.push(saga_hit(saga.id, &saga.definition));
    }
    hits.extend(app.lifecycles.parts.with_id(uuid).await?.as_ref().map(lifecycle_hit));
    Ok(())
}

async fn by_number(app: &App, id: &str, hits: &mut Vec<Hit>) -> Result<(), Problem> {
    let Some(number) = id.parse::<i64>().ok().filter(|number| *number > 0) else { return Ok(()) };
    let webhooks = &app.webhooks.parts;
    match webhooks.deliveries.get(number).await {
        Ok(_) => hits.push(numbered("delivery", number, "/webhooks/deliveries")),
        Err(WebhookError::UnknownDelivery(_)) => {}
        Err(error) => return Err(error.into()),
    }
    match webhooks.subscriptions.get(number).await {
        Ok(_) => hits.push(numbered("subscription", number, "/webhooks/subscriptions")),
        Err(WebhookError::UnknownSubscription(_)) => {}
        Err(error) => return Err(error.into()),
    }
    if app.engine.message(number).await?.is_some() {
        hits.push(numbered("message", number, "/outbox"));
    }
    Ok(())
}

/// The ids that callers have of their own.
async fn by_callers_id(app: &App, id: &str, hits: &mut Vec<Hit>) -> Result<(), Problem> {
    let filter = Filter { correlation_id: Some(id.to_owned()), ..Filter::default() };
    let found = app.engine.list(&filter, &Cursor { before: None, limit: LISTED }).await?;
    if found.next.is_some() {
        let place = address("/sagas", &[("correlation_id", Some(id))]);
        hits.push(Hit { what: "sagas", name: format!("all with the correlation id {id}"), id: None, place });
    }
    hits.extend(found.items.iter().map(|saga| saga_hit(saga.id, &saga.definition)));
    let attributes = [("order_id".to_owned(), id.to_owned())].into();
    let filter = Filter { definition: Some(orders::DEFINITION.to_owned()), attributes, ..Filter::default() };
    let found = app.engine.list(&filter, &Cursor { before: None, limit: LISTED }).await?;
    let order = |id: SagaId| Hit { what: "order", ..saga_hit(id, orders::DEFINITION) };
    hits.extend(found.items.iter().map(|saga| order(saga.id)));
    let lifecycles = &app.lifecycles.parts;
    for standing in lifecycles.correlated(id, LISTED).await? {
        hits.push(lifecycle_hit(&standing));
    }
    for machine in lifecycles.machines.list().await?.into_iter().take(MACHINES) {
        match lifecycles.get(&machine.name, id).await {
            Ok(standing) => hits.push(lifecycle_hit(&standing)),
            Err(LifecycleError::UnknownKey { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut seen = HashSet::new();
    hits.retain(|hit| seen.insert(hit.place.clone()));
    Ok(())
}

fn saga_hit(id: SagaId, definition: &str) -> Hit {
    Hit { what: "saga", name: definition.to_owned(), id: Some(id.to_string()), place: sagas::place(id) }
}

fn lifecycle_hit(standing: &Standing) -> Hit {
    Hit {
        what: "lifecycle",
        name: standing.machine.to_string(),
        id: Some(standing.key.to_string()),
        place: lifecycles::place(&standing.machine, &standing.key),
    }
}

fn numbered(what: &'static str, number: i64, place: &str) -> Hit {
    Hit { what, name: number.to_string(), id: Some(number.to_string()), place: format!("{place}/{number}") }
}
