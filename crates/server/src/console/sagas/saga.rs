//! One saga: how it hangs together, where it stands, what happened, and what can be done.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use backstitch::{Error, EventView, Insight, Recorded, SagaId, Status, StepStatus, StepView};

use super::seen::{RECENT, Seen};
use super::timeline::{Timeline, Until};
use super::{graph, place, whole};
use crate::app::App;
use crate::console::done::Done;
use crate::console::drawing::Drawing;
use crate::console::excerpt::Excerpt;
use crate::console::log_pages::{self, LogPages};
use crate::console::page::{Frame, Section, page};
use crate::console::parts::{Id, State as Shown, When};
use crate::console::visitor::Visitor;
use crate::http::{Query, SagaInPath};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "sagas/saga.html")]
struct Page {
    frame: Frame,
    insight: Insight,
    graph: Option<Drawing>,
    timeline: Option<Timeline>,
    events: Vec<Line>,
    pages: LogPages,
    seen: Seen,
}

/// An event in words.
struct Line {
    seq: u64,
    at: When,
    name: &'static str,
    step: String,
    particulars: Excerpt,
}

/// Everything about a saga.
pub(in crate::console) async fn show(
    State(app): State<App>,
    SagaInPath(id): SagaInPath,
    visitor: Visitor,
    mut query: Query,
) -> Result<Response, Problem> {
    let done = Done::asked(&mut query)?;
    let asked = log_pages::asked(&mut query)?;
    query.finish(log_pages::AFTER)?;
    let insight = app.engine.insight(id).await?.ok_or(Error::NotFound(id))?;
    // As many as the forms are bound to, so that the newest are read once.
    let pages = LogPages::of(&place(id), insight.seq, asked, RECENT);
    let log = app.engine.log(id, pages.after, usize::try_from(RECENT).unwrap_or(usize::MAX)).await?;
    let seen = if pages.is_newest { Seen::in_log(&insight, &log) } else { Seen::of(&app, &insight).await? };
    let mut frame =
        Frame::new(&app, visitor, Section::Sagas, format!("{} {id}", insight.saga.definition)).after(done);
    if !insight.saga.status.is_terminal() && pages.is_newest {
        frame = frame.live(format!("/sagas/{id}/live?after={}", insight.seq));
    }
    let steps = insight.saga.steps.iter().map(|step| &step.id);
    Ok(page(&Page {
        graph: graph::drawn(&insight),
        timeline: Timeline::of(
            &log,
            steps,
            if pages.newer.is_some() { Until::LastEvent } else { Until::Now(frame.now) },
        ),
        events: log.iter().map(|recorded| Line::of(&frame, id, recorded)).collect(),
        pages,
        seen,
        frame,
        insight,
    }))
}

impl Page {
    fn saga(&self) -> &backstitch::SagaState {
        &self.insight.saga
    }

    fn is_active(&self) -> bool {
        !self.saga().status.is_terminal()
    }

    fn may_be_cancelled(&self) -> bool {
        matches!(self.saga().status, Status::Pending | Status::Running) && self.frame.visitor.may_cancel()
    }

    /// Steps that wait for somebody, where they can be decided about.
    fn stuck(&self) -> Vec<&StepView> {
        let failed = self.saga().status == Status::Failed;
        let steps = self.saga().steps.iter();
        steps.filter(|step| failed && step.status == StepStatus::CompensationFailed).collect()
    }

    fn before(&self, at: usize) -> String {
        let steps = &self.insight.steps;
        let before = steps.get(at).map(|step| step.depends_on.as_slice()).unwrap_or_default();
        let names = before.iter().filter_map(|&it| steps.get(it)).map(|step| step.id.to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    fn input(&self) -> Excerpt {
        Excerpt::of_json(self.saga().input.as_str(), || whole::at(self.saga().id, None))
    }

    fn result(&self, step: &StepView) -> Option<Excerpt> {
        let result = step.result.as_ref().filter(|result| !result.is_null())?;
        let place = || whole::at(self.saga().id, Some(("step", step.id.as_str())));
        Some(Excerpt::of_json(result.as_str(), place))
    }

    fn names(steps: &[backstitch::StepId]) -> String {
        steps.iter().map(backstitch::StepId::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl Line {
    fn of(frame: &Frame, saga: SagaId, recorded: &Recorded) -> Self {
        let event = &recorded.event;
        let step = event.step().map(ToString::to_string).unwrap_or_default();
        let told = serde_json::to_value(EventView::of(recorded)).unwrap_or_default();
        let known = ["seq", "at", "type", "step", "attempt"];
        let fields = told.as_object().into_iter().flatten();
        let mut fields: Vec<_> = fields.filter(|(name, _)| !known.contains(&name.as_str())).collect();
        // Flags come first: a long result is cut and must not hide them.
        fields.sort_by_key(|(_, value)| !value.is_boolean());
        let particulars = fields
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>()
            .join(" · ");
        let step = event.attempt().map_or(step.clone(), |attempt| format!("{step} #{attempt}"));
        let place = || whole::at(saga, Some(("event", &recorded.seq.to_string())));
        let particulars = Excerpt::of(particulars, place);
        Self { seq: recorded.seq, at: frame.when(recorded.at), name: event.name(), step, particulars }
    }
}
