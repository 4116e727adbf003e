//! What every page has around it, and how it is sent.

use std::borrow::Borrow;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use backstitch::Timestamp;

use super::done::Done;
use super::gate::refuse;
use super::parts::When;
use super::visitor::Visitor;
use crate::app::App;
use crate::problem::{Kind, Problem, Told};

/// Nothing from elsewhere, nothing written into the page: one script, one stylesheet, pictures that are drawn in place.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// Which Backstitch this is.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Which part of the console a page belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Section {
    #[default]
    None,
    Overview,
    Sagas,
    Definitions,
    Webhooks,
    Outbox,
    Lifecycles,
    Alerts,
    Doctor,
    Audit,
}

impl Section {
    const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Overview, "Overview", "/"),
        (Self::Sagas, "Sagas", "/sagas"),
        (Self::Definitions, "Definitions", "/definitions"),
        (Self::Webhooks, "Webhooks", "/webhooks"),
        (Self::Outbox, "Outbox", "/outbox"),
        (Self::Lifecycles, "Lifecycles", "/lifecycles"),
        (Self::Alerts, "Alerts", "/alerts"),
        (Self::Doctor, "Doctor", "/doctor"),
        (Self::Audit, "Audit", "/audit"),
    ];
}

/// What is around the content of a page.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) section: Section,
    pub(crate) visitor: Visitor,
    /// When it was made.
    pub(crate) now: Timestamp,
    /// What was just done, if that is why it is shown.
    pub(crate) done: Option<Done>,
    /// Where the script hears that the page has changed.
    pub(crate) live: Option<String>,
}

impl Frame {
    pub(crate) fn new(app: &App, visitor: Visitor, section: Section, title: impl Into<String>) -> Self {
        Self { title: title.into(), section, visitor, now: app.clock.now(), done: None, live: None }
    }

    /// The same, shown because something was done.
    pub(crate) fn after(self, done: Option<Done>) -> Self {
        Self { done, ..self }
    }

    /// The same, followed as it changes.
    pub(crate) fn live(self, from: impl Into<String>) -> Self {
        Self { live: Some(from.into()), ..self }
    }

    /// A time of this page.
    pub(crate) fn when(&self, at: impl Borrow<Timestamp>) -> When {
        When::seen(self.now, *at.borrow())
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let may_audit = self.visitor.may_administer();
        let shown =
            Section::ALL.into_iter().filter(move |(section, ..)| may_audit || *section != Section::Audit);
        let here = self.section;
        shown.map(move |(section, name, place)| (name, place, section == here))
    }
}

/// A page as an answer.
pub(crate) fn page(template: &impl Template) -> Response {
    answer(StatusCode::OK, template)
}

/// The same with another status: what was asked for cannot be done, and the page says why.
pub(crate) fn answer(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(body) => (status, Html(body)).into_response(),
        Err(why) => {
            tracing::error!(%why, "a page cannot be rendered");
            Problem::internal().into_response()
        }
    }
}

/// What is wrong, for a page that shows the form once more.
pub(crate) fn told(problem: Problem) -> (StatusCode, Option<Told>) {
    let mut refused = problem.into_response();
    let told = refused.extensions_mut().remove::<Told>();
    (refused.status(), told)
}

/// A page about something that cannot be done.
#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: Frame,
    told: Told,
    back: String,
}

/// An answer as a page: with what every page says to the browser, and problems told to people.
pub(super) fn in_pages(app: &App, visitor: Visitor, back: String, mut response: Response) -> Response {
    if let Some(told) = response.extensions_mut().remove::<Told>() {
        let status = response.status();
        let frame = Frame::new(app, visitor, Section::None, told.kind.title());
        let told = answer(status, &ProblemPage { frame, told, back });
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(CONTENT_TYPE);
        parts.headers.remove(CONTENT_LENGTH);
        let (told_parts, body) = told.into_parts();
        parts.headers.extend(told_parts.headers);
        response = Response::from_parts(parts, body);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("Cookie"));
    response
}

/// Answers whoever asks for what is not there: people with a page, programs with a problem.
pub(crate) async fn nothing_here(State(app): State<App>, request: Request) -> Response {
    let problem = Problem::new(Kind::NotFound, "there is nothing here: /docs lists what there is");
    refuse(app, request, problem).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Template)]
    #[template(source = "<p>{{ word }}</p>", ext = "html")]
    struct Word {
        word: &'static str,
    }

    #[test]
    fn a_page_says_itself_that_it_is_one() {
        let answer = answer(StatusCode::CONFLICT, &Word { word: "<b>" });
        assert_eq!(answer.status(), StatusCode::CONFLICT);
        assert_eq!(answer.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    }
}
