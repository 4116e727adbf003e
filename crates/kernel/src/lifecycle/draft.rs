//! A machine as it is written down, before anybody has looked whether it makes sense.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::performer::Performer;
use crate::retry::Retry;
use crate::saga::draft::{DEFAULT_STEP_TIMEOUT, default_retry};
use crate::time::text;

/// The state that every machine has: the end of what could not be done.
pub const FAILED: &str = "failed";
/// The kind of an error that names none.
pub const INTERNAL: &str = "internal";
/// Where an answer without an error leads, in `next`.
pub const OK: &str = "ok";
/// The most states a machine may have.
pub const MAX_STATES: usize = 200;
/// The most edges a machine may have.
pub const MAX_EDGES: usize = 2_000;
/// The longest message of a failure, in bytes.
pub const MAX_MESSAGE: usize = 4096;
/// The most kinds of errors a machine may have.
pub const MAX_ERROR_KINDS: usize = 100;

/// A machine before its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// The name it is driven by.
    pub name: String,
    /// Its version.
    #[serde(default = "one")]
    pub version: u32,
    /// What people read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the topics of its messages begin with; they end in the new state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Where everything begins.
    pub initial: String,
    /// All of them; [`FAILED`] need not be named.
    pub states: Vec<String>,
    /// Those that nothing follows; [`FAILED`] is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminal: Vec<String>,
    /// Those that wait for somebody to start again, and where it goes on then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pause: BTreeMap<String, String>,
    /// How long a pause state may last before its instance is abandoned. One that is not named lasts until a start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pause_expires: BTreeMap<String, Allowed>,
    /// What may follow what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<(String, String)>,
    /// From where [`FAILED`] may follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub can_fail: Vec<String>,
    /// What errors are told apart by; [`INTERNAL`] need not be named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_kinds: Vec<String>,
    /// What is done in a state, and where it leads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, DraftAction>,
    /// A state that lasts longer than this counts as stuck.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stuck_after: BTreeMap<String, Allowed>,
}

/// How long something may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Allowed(#[serde(with = "text")] pub Duration);

/// What is done in a state, before its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftAction {
    /// Who does it; nobody where the state is only passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performer: Option<Performer>,
    /// Where each answer leads: [`OK`] and kinds of errors. An error that is not named here leads to [`FAILED`].
    pub next: BTreeMap<String, String>,
    /// How long one attempt may take; for an outside worker from when it leases the job.
    #[serde(default = "default_timeout", with = "text")]
    pub timeout: Duration,
    /// How long an attempt may wait for an outside worker; none where that has no end.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Duration>,
    /// How often it is tried again.
    #[serde(default = "default_retry")]
    pub retry: Retry,
}

impl Draft {
    /// A machine of this name that begins in this state and has no other yet.
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
    /// A state that is only passed: nothing is done in it.
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

    /// Done by this one, and followed by this state where it worked.
    #[must_use]
    pub fn performed_by(performer: Performer, next: impl Into<String>) -> Self {
        Self { performer: Some(performer), ..Self::passing_to(next) }
    }

    /// The same, with where errors of a kind lead.
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
