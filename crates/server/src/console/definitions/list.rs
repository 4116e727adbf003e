//! The list of definitions.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::orders;

use super::place;
use crate::app::App;
use crate::console::address::address;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::When;
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::Problem;
use crate::routes::DocumentPage;

#[derive(Template)]
#[template(path = "definitions/list.html")]
struct List {
    frame: Frame,
    declared: Vec<Row>,
    /// Registered by the program that runs here.
    by_code: Vec<Row>,
    next: Option<String>,
}

struct Row {
    name: String,
    place: String,
    active: Option<u32>,
    staged: Option<u32>,
    versions: usize,
    changed: Option<When>,
}

/// What is declared, by name, and what code has registered.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let after = query.text("cursor").unwrap_or_default();
    query.finish("cursor")?;
    let frame = Frame::new(&app, visitor, Section::Definitions, "Definitions").live("/live");
    let all = app.engine.declarations().await?;
    let (shown, next) = DocumentPage::after(after).of(&all);
    let declared: Vec<Row> = shown
        .iter()
        .map(|it| Row {
            name: it.name.to_string(),
            place: if &*it.name == orders::DEFINITION { "/orders".to_owned() } else { place(&it.name) },
            active: it.active,
            staged: it.staged,
            versions: it.versions.len(),
            changed: it.versions.last().map(|newest| frame.when(newest.created_at)),
        })
        .collect();
    let next = next.map(|last| address("/definitions", &[("cursor", Some(&last))]));
    let mut known = app.engine.runnable().await;
    known.retain(|known| !all.iter().any(|declared| declared.name == known.name));
    known.sort_by(|one, other| (&one.name, one.version).cmp(&(&other.name, other.version)));
    let by_code = known.into_iter().map(|known| Row {
        name: known.name.to_string(),
        place: place(&known.name),
        active: Some(known.version),
        staged: None,
        versions: 1,
        changed: None,
    });
    Ok(page(&List { by_code: by_code.collect(), declared, next, frame }))
}
