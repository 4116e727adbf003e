//! What the doctor finds: what is wrong, and what to do about it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::page::{Frame, Section, page};
use super::parts::{Id, Mood, State as Shown};
use super::visitor::Visitor;
use crate::app::App;
use crate::doctor::{Check, Diagnosis, Finding, Severity};
use crate::http::Query;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "doctor.html")]
struct Page {
    frame: Frame,
    diagnosis: Arc<Diagnosis>,
}

impl Page {
    fn severity(severity: Severity) -> Shown {
        match severity {
            Severity::Warning => Shown::new("warning", "△", Mood::Undone),
            Severity::Error => Shown::new("error", "✕", Mood::Bad),
        }
    }

    /// Whether the finding is about items that have a page of their own.
    fn is_parked(finding: &Finding) -> bool {
        finding.check == Check::ParkedItems
    }

    fn status(status: &str) -> Shown {
        match status {
            "ok" => Shown::new("ok", "✓", Mood::Good),
            "warning" => Self::severity(Severity::Warning),
            _ => Self::severity(Severity::Error),
        }
    }
}

/// How everything is.
pub(super) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let diagnosis = app.doctor.diagnose(&app).await;
    let frame = Frame::new(&app, visitor, Section::Doctor, "Doctor").live("/live");
    Ok(page(&Page { frame, diagnosis }))
}
