//! A definition that somebody writes here: all its mistakes are told, and what was written stays in the form.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch_modules::declaration::{Declaration, Format, with_secrets};

use super::definition::written;
use super::place;
use crate::app::App;
use crate::audit::said;
use crate::console::done::Done;
use crate::console::form::Form;
use crate::console::page::{Frame, Section, answer, page, told};
use crate::console::visitor::Visitor;
use crate::http::Query;
use crate::problem::{Problem, Told};
use crate::routes::{DeclaredKind as _, Definitions};

#[derive(Template)]
#[template(path = "definitions/write.html")]
struct Page {
    frame: Frame,
    text: String,
    told: Option<Told>,
}

/// The form, with what is active or staged of a name where one is given.
pub(in crate::console) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let of = query.text("of");
    query.finish("of")?;
    let text = match &of {
        Some(name) => {
            let draft = app.engine.draft(name, None).await?;
            draft.map(|draft| written(&with_secrets(&draft, &app.headers))).unwrap_or_default()
        }
        None => String::new(),
    };
    let frame = Frame::new(&app, visitor, Section::Definitions, "Write a definition");
    Ok(page(&Page { frame, text, told: None }))
}

/// Stages it.
pub(in crate::console) async fn take(State(app): State<App>, visitor: Visitor, form: Form) -> Response {
    match staged(&app, form.text("text")).await {
        Ok((name, version)) => {
            said(Done::Staged.and_back_to(&place(&name)), format!("staged {name} version {version}"))
        }
        Err(problem) => {
            let (status, told) = told(problem);
            let frame = Frame::new(&app, visitor, Section::Definitions, "Write a definition");
            answer(status, &Page { frame, text: form.text("text").to_owned(), told })
        }
    }
}

/// JSON can be read as YAML.
async fn staged(app: &App, text: &str) -> Result<(String, u32), Problem> {
    let draft = Declaration::read(text.as_bytes(), Format::Yaml).map_err(backstitch::Error::from)?;
    Definitions::refuse_the_servers_own(&draft.name)?;
    let name = draft.name.clone();
    let declared = app.engine.declare(draft).await?;
    Ok((name, declared.version))
}
