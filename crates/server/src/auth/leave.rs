//! How long an answer may go on: no longer than the key that asked for it opens anything.
//!
//! Streams and long waits do not look at the keys themselves, or thousands of them would. They hold a token that they share
//! with all others of their key, and one task looks for all.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;

use super::gate::unauthenticated;
use super::keyring::Keyring;
use super::session::Session;
use crate::app::App;
use crate::problem::Problem;

/// How often the keys of those who stay are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// By what a request was let in, where that can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Right {
    /// The key with this number.
    Key(i64),
    /// A session of the console.
    Session(Session),
    /// There was no key yet, so nobody needed one.
    Open,
}

/// Whoever stays, by what they were let in.
pub(crate) struct Leaves {
    /// Ends everybody's leave.
    closing: CancellationToken,
    given: Mutex<HashMap<Right, Weak<CancellationToken>>>,
}

impl Leaves {
    pub(crate) fn until(closing: CancellationToken) -> Self {
        Self { closing, given: Mutex::default() }
    }

    fn give(&self, right: Option<Right>) -> Leave {
        let Some(right) = right else {
            return Leave { ends: Arc::new(self.closing.clone()), closing: self.closing.clone() };
        };
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = given.get(&right).and_then(Weak::upgrade).unwrap_or_else(|| {
            let ends = Arc::new(self.closing.child_token());
            given.insert(right, Arc::downgrade(&ends));
            ends
        });
        Leave { ends, closing: self.closing.clone() }
    }

    /// What those who are here now were let in by.
    fn rights(&self) -> Vec<Right> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|_, ends| ends.strong_count() > 0);
        given.keys().copied().collect()
    }

    fn end(&self, right: Right) {
        let ended = self.given.lock().unwrap_or_else(PoisonError::into_inner).remove(&right);
        if let Some(ends) = ended.and_then(|ends| ends.upgrade()) {
            ends.cancel();
        }
    }

    /// Ends the leave of everybody whose key opens nothing any more.
    async fn look(&self, keyring: &Keyring) {
        let rights = self.rights();
        if rights.is_empty() {
            return;
        }
        let holds = keyring.holds().await;
        for right in rights {
            if !holds(right) {
                self.end(right);
            }
        }
    }
}

/// Sees to it that nobody stays whose key opens nothing any more.
pub(crate) async fn watch_leaves(app: App) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => app.leaves.look(&app.gate.keyring).await,
            () = app.closing.cancelled() => return,
        }
    }
}

/// Leave to stay, for an answer that goes on or is waited for.
#[derive(Clone)]
pub(crate) struct Leave {
    ends: Arc<CancellationToken>,
    closing: CancellationToken,
}

impl Leave {
    /// Ends when the leave does, or the server closes.
    pub(crate) async fn over(&self) {
        self.ends.cancelled().await;
    }

    /// Whether it was taken back; a server that closes takes back nobody's.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.ends.is_cancelled() && !self.closing.is_cancelled()
    }

    /// The answer to whoever waited while it was taken back.
    pub(crate) fn still_given(&self) -> Result<(), Problem> {
        if self.is_withdrawn() {
            return Err(unauthenticated(
                "the API key has expired or was revoked meanwhile: ask for a new one",
            ));
        }
        Ok(())
    }
}

impl FromRequestParts<App> for Leave {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(app.leaves.give(parts.extensions.get::<Right>().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_came_by_the_same_key_leaves_together_and_nobody_else() {
        let leaves = Leaves::until(CancellationToken::new());
        let [one, same, other] = [1, 1, 2].map(|id| leaves.give(Some(Right::Key(id))));
        let (open, token) = (leaves.give(Some(Right::Open)), leaves.give(None));
        leaves.end(Right::Key(1));
        assert!(one.is_withdrawn() && same.is_withdrawn());
        assert!(!other.is_withdrawn() && !open.is_withdrawn() && !token.is_withdrawn());
        assert!(!leaves.give(Some(Right::Key(1))).is_withdrawn(), "who comes later is judged anew");
    }

    #[test]
    fn a_server_that_closes_ends_everybodys_leave_and_withdraws_none() {
        let closing = CancellationToken::new();
        let leaves = Leaves::until(closing.clone());
        let all = [leaves.give(Some(Right::Key(1))), leaves.give(None)];
        closing.cancel();
        assert!(all.iter().all(|leave| leave.ends.is_cancelled() && !leave.is_withdrawn()));
    }

    #[test]
    fn whoever_has_gone_is_not_looked_for() {
        let leaves = Leaves::until(CancellationToken::new());
        let stays = leaves.give(Some(Right::Key(1)));
        drop(leaves.give(Some(Right::Key(2))));
        assert_eq!(leaves.rights(), [Right::Key(1)]);
        drop(stays);
        assert!(leaves.rights().is_empty());
    }
}
