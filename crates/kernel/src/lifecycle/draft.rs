//! A machine as written, before validation.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::performer::Performer;
use crate::retry::Retry;
use crate::saga::draft::{DEFAULT_STEP_TIMEOUT, default_retry};
use crate::time::text;

/// The failure state of every machine.
pub const FAILED: &str = "failed";
/// The default kind of an error.
pub const INTERNAL: &str = "internal";
/// The key in `next` for a successful action.
pub const OK: &str = "ok";
/// The most states a machine may have.
pub const MAX_STATES: usize = 200;
/// The most edges a machine may have.
pub const MAX_EDGES: usize = 2_000;
/// The longest message of a failure, in bytes.
pub const MAX_MESSAGE: usize = 4096;
/// The most kinds of errors a machine may have.
pub const MAX_ERROR_KINDS: usize = 100;

/// A machine before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default = "one")]
    pub version: u32,
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The prefix of its messages' topics; they end in the new state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The initial state.
    pub initial: String,
    /// All states; [`FAILED`] need not be listed.
    pub states: Vec<String>,
    /// The terminal states; [`FAILED`] is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminal: Vec<String>,
    /// The pause states, each with the state that a start leads to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pause: BTreeMap<String, String>,
    /// Time limits of pause states; then the instance is abandoned. Without one a pause lasts until a start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pause_expires: BTreeMap<String, Allowed>,
    /// The allowed transitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<(String, String)>,
    /// The states that may fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub can_fail: Vec<String>,
    /// The kinds of errors; [`INTERNAL`] need not be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_kinds: Vec<String>,
    /// The actions of states.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, DraftAction>,
    /// An instance that stays in a state longer than this counts as stuck.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stuck_after: BTreeMap<String, Allowed>,
}

/// A time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Allowed(#[serde(with = "text")] pub Duration);

/// A state's action before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftAction {
    /// Its executor; none if the state is passed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performer: Option<Performer>,
    /// The next state for each result: [`OK`] and kinds of errors. Other errors lead to [`FAILED`].
    pub next: BTreeMap<String, String>,
    /// Time limit of one attempt; for an outside worker from its lease on.
    #[serde(default = "default_timeout", with = "text")]
    pub timeout: Duration,
    /// How long an attempt may wait for an outside worker; none means no limit.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Duration>,
    /// The retry policy.
    #[serde(default = "default_retry")]
    pub retry: Retry,
}

impl Draft {
    /// A machine with this name and only its initial state.
    #[must_use]
    pub fn new(name: impl Into<String>, initial: impl Into<String>) -> Self {
        let initial = initial.into();
        Self {
            name: name.into(),
            version: 1,
            title: None,
            subject: None,
            states: vec![initial.clone()],
            initial,
            terminal: Vec::new(),
            pause: BTreeMap::new(),
            pause_expires: BTreeMap::new(),
            edges: Vec::new(),
            can_fail: Vec::new(),
            error_kinds: Vec::new(),
            actions: BTreeMap::new(),
            stuck_after: BTreeMap::new(),
        }
    }
}

impl DraftAction {
    /// An action without work: the state is passed at once.
    #[must_use]
    pub fn passing_to(next: impl Into<String>) -> Self {
        Self {
            performer: None,
            next: BTreeMap::from([(OK.to_owned(), next.into())]),
            timeout: DEFAULT_STEP_TIMEOUT,
            queue_timeout: None,
            retry: default_retry(),
        }
    }

    /// An action by this executor, followed by this state on success.
    #[must_use]
    pub fn performed_by(performer: Performer, next: impl Into<String>) -> Self {
        Self { performer: Some(performer), ..Self::passing_to(next) }
    }

    /// Adds the next state for errors of this kind.
    #[must_use]
    pub fn on_error(mut self, kind: impl Into<String>, next: impl Into<String>) -> Self {
        self.next.insert(kind.into(), next.into());
        self
    }
}

fn one() -> u32 {
    1
}

fn default_timeout() -> Duration {
    DEFAULT_STEP_TIMEOUT
}
