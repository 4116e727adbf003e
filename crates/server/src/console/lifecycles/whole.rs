//! What the page of a lifecycle shows the beginning of: its input, or what an event carries.

use axum::extract::State;
use axum::response::Response;

use super::instance::told_of;
use super::place;
use crate::app::App;
use crate::console::address::address;
use crate::console::json_text::indented;
use crate::console::page::{Frame, Section};
use crate::console::visitor::Visitor;
use crate::console::whole::Whole;
use crate::http::{LifecycleInPath, Query};
use crate::problem::{Kind, Problem};
use crate::routes::told_of_lifecycle as told;

/// Where one of them is.
pub(super) fn at(place: &str, event: Option<u64>) -> String {
    let event = event.map(|seq| seq.to_string());
    address(&format!("{place}/whole"), &[("event", event.as_deref())])
}

/// All of it.
pub(in crate::console) async fn show(
    State(app): State<App>,
    LifecycleInPath { machine, key }: LifecycleInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let event = query.number("event", 1, i64::MAX.unsigned_abs())?;
    query.finish("event")?;
    let parts = &app.lifecycles.parts;
    let standing = told(&app, parts.get(&machine, &key).await).await?;
    let (title, text) = match event {
        None => {
            let input = standing.instance.given.input.as_ref();
            ("Input".to_owned(), input.map_or_else(|| "none".to_owned(), |input| indented(input.as_str())))
        }
        Some(seq) => {
            let found = parts.log(standing.id, seq - 1, 1).await?;
            let found = found.iter().find(|recorded| recorded.seq == seq);
            let found = found.ok_or_else(|| {
                Problem::new(Kind::NotFound, format!("the log of this lifecycle has no event {seq}"))
            })?;
            let (what, particulars) = told_of(&found.event);
            (format!("Event {seq}: {what}"), particulars)
        }
    };
    let of = (format!("{machine} {key}"), place(&machine, &key));
    Ok(Whole { frame: Frame::new(&app, visitor, Section::Lifecycles, title), of, text }.shown())
}
