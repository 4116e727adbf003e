//! The machines there are.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::lifecycles::Stuck;

use super::{machine_place, place};
use crate::app::App;
use crate::console::address::address;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::When;
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::Problem;
use crate::routes::DocumentPage;

/// Stuck ones that are listed.
const STUCK: usize = 20;

#[derive(Template)]
#[template(path = "lifecycles/list.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
    stuck: Vec<Late>,
    next: Option<String>,
}

struct Row {
    name: String,
    place: String,
    active: Option<u32>,
    staged: Option<u32>,
    changed: When,
}

struct Late {
    machine: String,
    key: String,
    place: String,
    state: String,
    since: When,
}

/// Machines by name, and what is stuck in them.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let after = query.text("cursor").unwrap_or_default();
    query.finish("cursor")?;
    let declared = app.lifecycles.parts.machines.list().await?;
    let stuck = app.lifecycles.parts.stuck(STUCK).await?;
    let frame = Frame::new(&app, visitor, Section::Lifecycles, "Lifecycles").live("/live");
    let (shown, next) = DocumentPage::after(after).of(&declared);
    let rows: Vec<Row> = shown
        .iter()
        .map(|it| Row {
            place: machine_place(&it.name),
            active: it.active,
            staged: it.staged,
            changed: frame.when(it.changed_at),
            name: it.name.to_string(),
        })
        .collect();
    let next = next.map(|last| address("/lifecycles", &[("cursor", Some(&last))]));
    let late = |it: Stuck| Late {
        machine: it.standing.machine.to_string(),
        place: place(&it.standing.machine, &it.standing.key),
        key: it.standing.key.to_string(),
        state: it.standing.instance.state.to_string(),
        since: frame.when(it.since),
    };
    Ok(page(&List { stuck: stuck.into_iter().map(late).collect(), rows, next, frame }))
}
