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
    /// Nothing while it is being done.
    outcome: Option<Arc<Outcome>>,
}

enum Found {
    Nothing,
    UnderWay,
    Outcome(Arc<Outcome>),
}

impl Outcomes {
    fn find(&self, once: SagaId, key: Option<i64>) -> Found {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.iter().find(|kept| kept.once == once && kept.key == key) {
            None => Found::Nothing,
            Some(Kept { outcome: None, .. }) => Found::UnderWay,
            Some(Kept { outcome: Some(outcome), .. }) => Found::Outcome(outcome.clone()),
        }
    }

    /// Whether nobody has sent this form before, nor at this very moment.
    fn begin(&self, once: SagaId, key: Option<i64>) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = !kept.iter().any(|kept| kept.once == once && kept.key == key);
        if is_first {
            kept.push_back(Kept { once, key, outcome: None });
            while kept.len() > KEPT {
                kept.pop_front();
            }
        }
        is_first
    }

    fn keep(&self, once: SagaId, key: Option<i64>, outcome: Outcome) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.once != once || kept.key != key);
        kept.push_back(Kept { once, key, outcome: Some(Arc::new(outcome)) });
    }

    /// Lets a form be sent again that came to nothing.
    fn give_up(&self, once: SagaId, key: Option<i64>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.once != once || kept.key != key || kept.outcome.is_some());
    }
}

/// A form that is taken once, by what it calls itself. Until it has come to something it can be sent again, if it is let go of.
pub(super) struct Once<'a> {
    outcomes: &'a Outcomes,
    id: SagaId,
    key: Option<i64>,
}

/// Whether a form is taken.
pub(super) enum Taken<'a> {
    Now(Once<'a>),
    /// The answer to a form that was sent before.
    Before(Response),
}

impl<'a> Once<'a> {
    /// Takes a form, unless it was taken before.
    pub(super) fn take(app: &'a App, form: &Form, visitor: &Visitor) -> Result<Taken<'a>, Problem> {
        let id = form.read("once", |text| text.parse().ok(), "send the form from its page")?;
        let (outcomes, key) = (&app.outcomes, visitor.holder.as_ref().map(|holder| holder.id));
        Ok(if outcomes.begin(id, key) {
            Taken::Now(Self { outcomes, id, key })
        } else {
            Taken::Before(said(see_other(&place(id)), "nothing: the form was sent before"))
        })
    }

    /// Leads to what came of it.
    pub(super) fn came_to(self, outcome: Outcome) -> Response {
        self.outcomes.keep(self.id, self.key, outcome);
        see_other(&place(self.id))
    }
}

impl Drop for Once<'_> {
    fn drop(&mut self) {
        self.outcomes.give_up(self.id, self.key);
    }
}

fn place(id: SagaId) -> String {
    format!("/outcomes/{id}")
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
    let none = |detail: &'static str| Err(Problem::new(Kind::NotFound, detail));
    let found = match app.outcomes.find(once, key) {
        Found::Outcome(found) => found,
        Found::UnderWay => return none("it is still being done: open this address again in a moment"),
        Found::Nothing => {
            return none(
                "what came of a form is shown to whoever sent it, for a while, by the node that took it: the logs and the \
                 audit say it for good",
            );
        }
    };
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
        assert!(outcomes.begin(id(0), Some(7)));
        outcomes.keep(id(0), Some(7), report());
        let is_kept = |number, key| matches!(outcomes.find(id(number), key), Found::Outcome(_));
        assert!(is_kept(0, Some(7)));
        assert!(!is_kept(0, Some(8)) && !is_kept(0, None));
        for number in 1..=KEPT {
            assert!(outcomes.begin(id(number), Some(7)));
            outcomes.keep(id(number), Some(7), report());
        }
        assert!(!is_kept(0, Some(7)) && is_kept(1, Some(7)));
    }

    #[test]
    fn of_two_who_send_a_form_at_the_same_moment_one_is_first() {
        let (outcomes, id) = (Outcomes::default(), SagaId(uuid::Uuid::from_u128(7)));
        let first = Once { outcomes: &outcomes, id, key: None };
        assert!(outcomes.begin(id, None));
        assert!(!outcomes.begin(id, None), "while it is being done");
        assert!(matches!(outcomes.find(id, None), Found::UnderWay));
        assert!(outcomes.begin(id, Some(7)), "somebody else's is another");
        drop(first);
        assert!(outcomes.begin(id, None), "it came to nothing");
        let first = Once { outcomes: &outcomes, id, key: None };
        first.came_to(Outcome::DeadLetters(requeue::Report::default()));
        assert!(!outcomes.begin(id, None), "it was done");
    }
}
