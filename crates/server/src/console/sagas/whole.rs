//! What a saga's page shows the beginning of: its input, a step's result, an event.

use axum::extract::State;
use axum::response::Response;
use backstitch::{Error, EventView};

use super::place;
use crate::app::App;
use crate::console::address::address;
use crate::console::json_text::indented;
use crate::console::page::{Frame, Section};
use crate::console::visitor::Visitor;
use crate::console::whole::Whole;
use crate::http::{Query, SagaInPath, bad_query};
use crate::problem::{Kind, Problem};

/// Where one of them is.
pub(super) fn at(saga: backstitch::SagaId, which: Option<(&str, &str)>) -> String {
    let which = which.map(|(name, value)| (name, Some(value)));
    address(&format!("{}/whole", place(saga)), which.as_slice())
}

/// All of it.
pub(in crate::console) async fn show(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let event = query.number("event", 1, i64::MAX.unsigned_abs())?;
    let step = query.text("step");
    query.finish("event or step")?;
    let saga = app.engine.insight(id).await?.ok_or(Error::NotFound(id))?.saga;
    let (title, text) = match (event, step) {
        (None, None) => ("Input".to_owned(), indented(saga.input.as_str())),
        (None, Some(name)) => {
            let step = saga.steps.iter().find(|step| step.id.as_str() == name);
            let result = step.and_then(|step| step.result.as_ref());
            let result = result.ok_or_else(|| none(format!("no step `{name}` of this saga has a result")))?;
            (format!("Result of {name}"), indented(result.as_str()))
        }
        (Some(seq), None) => {
            let found = app.engine.log(id, seq - 1, 1).await?;
            let found = found.iter().find(|recorded| recorded.seq == seq);
            let found = found.ok_or_else(|| none(format!("the log of this saga has no event {seq}")))?;
            // Cannot fail: the API says the same.
            let told = serde_json::to_string_pretty(&EventView::of(found)).unwrap_or_default();
            (format!("Event {seq}"), told)
        }
        (Some(_), Some(_)) => return Err(bad_query("step", "is given beside an event: ask for one of them")),
    };
    let of = (format!("{} {id}", saga.definition), place(id));
    Ok(Whole { frame: Frame::new(&app, visitor, Section::Sagas, title), of, text }.shown())
}

fn none(detail: String) -> Problem {
    Problem::new(Kind::NotFound, detail)
}
