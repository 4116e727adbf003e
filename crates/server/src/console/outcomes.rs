//! What came of a form about many things, or of a call. It is kept for a while and has an address, so that looking at it again does
//! nothing again, and a form that is sent twice leads to what came of it the first time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::response::Response;
use backstitch::SagaId;

use super::done::see_other;
use super::form::Form;
use super::sagas::bulk;
use super::visitor::Visitor;
use super::webhooks::{operate, requeue};
use crate::app::App;
use crate::audit::said;
use crate::http::{OutcomeInPath, Query};
use crate::problem::{Kind, Problem};

/// Outcomes that are kept, of everybody.
const KEPT: usize = 200;

/// What came of it.
pub(crate) enum Outcome {
    Sagas(bulk::Report),
    DeadLetters(requeue::Report),
    TestCall(operate::Tested),
}

/// The newest of them, oldest first.
#[derive(Default)]
pub(crate) struct Outcomes(Mutex<VecDeque<Kept>>);

struct Kept {
    /// What the form was called.
    once: SagaId,
    /// Whose it is; nobody's while nobody needs a key.
    key: Option<i64>,
    outcome: Arc<Outcome>,
}

impl Outcomes {
    fn find(&self, once: SagaId, key: Option<i64>) -> Option<Arc<Outcome>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|kept| kept.once == once && kept.key == key).map(|kept| kept.outcome.clone())
    }

    fn keep(&self, once: SagaId, key: Option<i64>, outcome: Outcome) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Kept { once, key, outcome: Arc::new(outcome) });
        while kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

/// A form that is to be taken once: what it calls itself.
pub(super) struct Once {
    id: SagaId,
    key: Option<i64>,
}

impl Once {
    /// Reads what a form calls itself.
    pub(super) fn of(form: &Form, visitor: &Visitor) -> Result<Self, Problem> {
        let id = form.read("once", |text| text.parse().ok(), "send the form from its page")?;
        Ok(Self { id, key: visitor.holder.as_ref().map(|holder| holder.id) })
    }

    /// The answer to a form that was taken before.
    pub(super) fn was_taken(&self, app: &App) -> Option<Response> {
        app.outcomes.find(self.id, self.key)?;
        Some(said(see_other(&self.place()), "nothing: the form was sent before"))
    }

    /// Leads to what came of it.
    pub(super) fn came_to(self, app: &App, outcome: Outcome) -> Response {
        let place = self.place();
        app.outcomes.keep(self.id, self.key, outcome);
        see_other(&place)
    }

    fn place(&self) -> String {
        format!("/outcomes/{}", self.id)
    }
}

/// What came of it, for whoever did it.
pub(super) async fn show(
    State(app): State<App>,
    OutcomeInPath(once): OutcomeInPath,
    visitor: Visitor,
    query: Query,
) -> Result<Response, Problem> {
    query.finish("")?;
    let key = visitor.holder.as_ref().map(|holder| holder.id);
    let found = app.outcomes.find(once, key).ok_or_else(|| {
        let detail = "what came of a form is shown to whoever sent it, for a while, by the node that took it: the logs and \
                      the audit say it for good";
        Problem::new(Kind::NotFound, detail)
    })?;
    Ok(match &*found {
        Outcome::Sagas(report) => bulk::shown(&app, visitor, report),
        Outcome::DeadLetters(report) => requeue::shown(&app, visitor, report),
        Outcome::TestCall(tested) => operate::shown(&app, visitor, tested),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_kept_for_their_own_people_and_not_for_ever() {
        let outcomes = Outcomes::default();
        let id = |number: usize| SagaId(uuid::Uuid::from_u128(u128::try_from(number).unwrap()));
        let report = || Outcome::DeadLetters(requeue::Report::default());
        outcomes.keep(id(0), Some(7), report());
        assert!(outcomes.find(id(0), Some(7)).is_some());
        assert!(outcomes.find(id(0), Some(8)).is_none() && outcomes.find(id(0), None).is_none());
        for number in 1..=KEPT {
            outcomes.keep(id(number), Some(7), report());
        }
        assert!(outcomes.find(id(0), Some(7)).is_none() && outcomes.find(id(1), Some(7)).is_some());
    }
}
