//! One definition: what new sagas take, what waits to be applied, and how they differ.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::Draft;
use backstitch::store::InFlight;
use backstitch::store::documents::Document;
use backstitch_modules::declaration::{Declaration, changes};
use backstitch_modules::orders;

use super::place;
use super::plans::{self, Rollback};
use crate::app::App;
use crate::console::address::address;
use crate::console::documents::{self, difference};
use crate::console::done::Done;
use crate::console::drawing::Drawing;
use crate::console::line_diff::LineDiff;
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{When, live};
use crate::console::visitor::Visitor;
use crate::http::{NameInPath, Query};
use crate::problem::{Kind, Problem};
use crate::routes::definition_for;

#[derive(Template)]
#[template(path = "definitions/definition.html")]
struct Page {
    frame: Frame,
    name: String,
    here: String,
    title: Option<String>,
    active: Option<u32>,
    staged: Option<u32>,
    /// The version that is shown.
    shown: Option<u32>,
    versions: Vec<Version>,
    changes: Vec<String>,
    difference: Option<LineDiff>,
    drawing: Option<Drawing>,
    forward: Vec<String>,
    rollbacks: Vec<Rollback>,
    text: Option<String>,
    is_declared: bool,
    is_the_servers_own: bool,
}

struct Version {
    number: u32,
    place: String,
    created: Option<When>,
    in_flight: String,
}

/// Everything about a definition.
pub(in crate::console) async fn show(
    State(app): State<App>,
    NameInPath(name): NameInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let asked = query.number("version", 1, i32::MAX.unsigned_abs())?;
    query.finish("version")?;
    let declared = app.engine.declared(&name).await?;
    let in_flight = app.engine.in_flight(&name).await?;
    let known = app.engine.runnable().await;
    let of_code: Vec<u32> = known.iter().filter(|it| *it.name == *name).map(|it| it.version).collect();
    if declared.is_none() && of_code.is_empty() && in_flight.is_empty() {
        let detail = format!("no definition is called `{name}`: the list has those there are");
        return Err(Problem::new(Kind::DefinitionNotFound, detail));
    }
    let (active, staged) = match &declared {
        Some(declared) => (declared.active, declared.staged),
        None => (of_code.iter().max().copied(), None),
    };
    let shown = asked.or(active).or(staged);
    let holder = visitor.holder.as_ref();
    let draft = definition_for(holder, &app, &name, shown).await?;
    if asked.is_some() && draft.is_none() {
        return Err(Problem::new(Kind::DefinitionNotFound, format!("`{name}` has no such version")));
    }
    let before = definition_for(holder, &app, &name, active).await?;
    let after = definition_for(holder, &app, &name, staged).await?;
    let both = before.as_ref().zip(after.as_ref());
    let definition = draft.clone().and_then(|draft| draft.check().ok());
    let drawing = definition.as_ref().and_then(plans::drawn);
    let (forward, rollbacks) = match definition {
        Some(definition) => plans::planned(definition).await?,
        None => Default::default(),
    };
    let frame = Frame::new(&app, visitor, Section::Definitions, &name).after(done);
    Ok(page(&Page {
        versions: versions(&frame, &name, declared.as_ref(), &of_code, &in_flight),
        title: draft.as_ref().and_then(|draft| draft.title.clone()),
        changes: both
            .map(|(before, after)| changes(before, after).iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        difference: after.as_ref().map(|after| {
            difference(before.as_ref().map(Declaration::show).as_ref(), &Declaration::show(after))
        }),
        text: draft.as_ref().map(written),
        here: place(&name),
        is_declared: declared.is_some(),
        is_the_servers_own: name == orders::DEFINITION,
        frame,
        name,
        active,
        staged,
        shown,
        drawing,
        forward,
        rollbacks,
    }))
}

/// Those that are declared, or those of code, and whichever else sagas are under way on.
fn versions(
    frame: &Frame,
    name: &str,
    declared: Option<&Document>,
    of_code: &[u32],
    in_flight: &[InFlight],
) -> Vec<Version> {
    let created = |number: u32| {
        let found = declared?.versions.iter().find(|version| version.number == number)?;
        Some(frame.when(found.created_at))
    };
    let mut numbers: Vec<u32> = declared.iter().flat_map(|it| &it.versions).map(|it| it.number).collect();
    numbers.extend(of_code);
    numbers.extend(in_flight.iter().map(|count| count.version));
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.dedup();
    let version = |number: u32| Version {
        number,
        place: address(&place(name), &[("version", Some(&number.to_string()))]),
        created: created(number),
        in_flight: live(
            in_flight.iter().find(|count| count.version == number).map_or(0, |count| count.sagas),
        ),
    };
    numbers.into_iter().map(version).collect()
}

/// As its author could have written it.
pub(super) fn written(draft: &Draft) -> String {
    documents::written(&Declaration::show(draft))
}
