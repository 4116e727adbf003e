//! What the forms of a saga's page say that it showed. A saga moves on all the time: each form is bound to what it is about.

use backstitch::{Event, Insight, Recorded};

use crate::app::App;
use crate::problem::Problem;

/// The newest events: in them the last pause or resume is looked for, and what is further back has not changed meanwhile.
pub(super) const RECENT: u64 = 1000;

/// What was seen.
pub(super) struct Seen {
    /// By whoever cancels: whatever it has done since, it has not ended.
    pub(super) status: String,
    /// By whoever pauses or resumes: nobody else has done either since.
    pub(super) course: String,
    /// By whoever decides about its rollback: nothing has happened to it since.
    pub(super) rollback: String,
}

impl Seen {
    pub(super) async fn of(app: &App, insight: &Insight) -> Result<Self, Problem> {
        let after = insight.seq.saturating_sub(RECENT);
        let recent = app.engine.log(insight.saga.id, after, usize::try_from(RECENT).unwrap_or(usize::MAX));
        Ok(Self::in_log(insight, &recent.await?))
    }

    /// The same where the newest events were read already.
    pub(super) fn in_log(insight: &Insight, recent: &[Recorded]) -> Self {
        let saga = &insight.saga;
        let paused = if saga.paused { ", paused" } else { "" };
        let status = format!("{}{paused}", saga.status.as_str());
        let course = match last_turn(recent) {
            Some(turn) => format!("{status} since event {turn}"),
            None => status.clone(),
        };
        let rollback = format!("{status}, event {}", insight.seq);
        Self { status, course, rollback }
    }
}

fn last_turn(log: &[Recorded]) -> Option<u64> {
    let is_turn = |event: &Event| matches!(event, Event::SagaPaused { .. } | Event::SagaResumed { .. });
    log.iter().rev().find(|recorded| is_turn(&recorded.event)).map(|recorded| recorded.seq)
}
