//! Site provisioning (seed 004): a machine that is built in. Its three actions are calls to services that are configured.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstitch::kernel::lifecycle::draft::Allowed;
use backstitch::kernel::lifecycle::{Draft, DraftAction};
use backstitch::{Payload, Performer, Retry, StepError};
use serde::Deserialize;
use serde_json::json;

use super::errand::{Calls, Errand};
use crate::outgoing::Address;

/// The machine's name.
pub const MACHINE: &str = "site-provisioning";
/// What the topics of its messages begin with.
pub const SUBJECT: &str = "sites.provisioning";
/// What its state-changed messages are called.
pub const STATE_CHANGED: &str = "SiteProvisionStateChanged";
/// What the message of an abandoned site is called.
pub const ABANDONED: &str = "SiteProvisionAbandoned";

/// The way to a site that is live.
pub const PATH: [&str; 8] = [
    "requested",
    "source_resolving",
    "source_resolved",
    "vercel_creating",
    "vercel_created",
    "hook_creating",
    "hook_created",
    "live",
];
/// Where a site waits for its owner to link GitHub.
pub const AWAITING_GITHUB: &str = "awaiting_github";
/// What errors are told apart by.
pub const ERROR_KINDS: [&str; 5] =
    ["github_api", "vercel_api", "no_github_token", "quota_exceeded", "internal"];
/// From where a site can fail.
const CAN_FAIL: [&str; 4] = ["requested", "source_resolving", "vercel_creating", "hook_creating"];
/// A state in which something is done that lasts longer than this is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10 * 60);

/// Where the actions of sites go. Without any, sites are driven from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Finds out where a site's content comes from.
    pub resolve_source: Option<String>,
    /// Creates the project.
    pub create_project: Option<String>,
    /// Creates the hook.
    pub create_hook: Option<String>,
    /// How long one call may take.
    pub timeout: Option<Duration>,
    /// How often a call is tried again.
    pub retry: Option<Retry>,
    /// How long a site waits for GitHub before it is abandoned; for ever unless given.
    pub pause_expires: Option<Duration>,
}

/// Endpoints of which some are missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sites are provisioned by three services, of which some are missing ({}): name all of them, or none", missing.join(", "))]
pub struct Incomplete {
    /// Which.
    pub missing: Vec<&'static str>,
}

/// The machine, driven by the engine where endpoints are given and from outside where they are not.
///
/// # Errors
/// When some endpoints are given and others are not.
pub fn machine(endpoints: &Endpoints) -> Result<Draft, Incomplete> {
    let mut draft = declared();
    if let Some(allowed) = endpoints.pause_expires {
        draft.pause_expires.insert(AWAITING_GITHUB.to_owned(), Allowed(allowed));
    }
    let named = endpoints.named();
    let missing: Vec<&str> = named.iter().filter(|(_, url)| url.is_none()).map(|(name, _)| *name).collect();
    if missing.len() == named.len() {
        return Ok(draft);
    }
    if !missing.is_empty() {
        return Err(Incomplete { missing });
    }
    let mut acts = |state: usize, action: DraftAction| draft.actions.insert(PATH[state].to_owned(), action);
    for state in [0, 2, 4, 6] {
        acts(state, DraftAction::passing_to(PATH[state + 1]));
    }
    acts(1, endpoints.calls("resolve_source", PATH[2]).on_error("no_github_token", AWAITING_GITHUB));
    acts(3, endpoints.calls("create_project", PATH[4]));
    acts(5, endpoints.calls("create_hook", PATH[6]));
    for state in [1, 3, 5] {
        draft.stuck_after.insert(PATH[state].to_owned(), Allowed(STUCK_AFTER));
    }
    Ok(draft)
}

impl Endpoints {
    /// Everything that could not work, each with what it is about.
    #[must_use]
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let draft = match machine(self) {
            Ok(draft) => draft,
            Err(Incomplete { missing }) => {
                let told = "is missing: name all three services of sites, or none";
                return missing.into_iter().map(|name| (name, told.to_owned())).collect();
            }
        };
        let mut mistakes: Vec<(&'static str, String)> = Vec::new();
        for (name, url) in self.named() {
            let wrong = url.as_ref().and_then(|url| Address::read(url).err()).unwrap_or_default();
            mistakes.extend(wrong.into_iter().map(|what| (name, what)));
        }
        // One stands for all: they are called alike.
        for problem in draft.check().err().map(|problems| problems.0).unwrap_or_default() {
            if problem.place.starts_with("pause_expires.") {
                mistakes.push(("pause_expires", problem.message));
            } else if let Some(setting) = problem.place.strip_prefix("actions.vercel_creating.") {
                let setting = if setting.starts_with("retry") { "retries" } else { "timeout" };
                mistakes.push((setting, problem.message));
            }
        }
        mistakes
    }

    fn named(&self) -> [(&'static str, &Option<String>); 3] {
        [
            ("resolve_source", &self.resolve_source),
            ("create_project", &self.create_project),
            ("create_hook", &self.create_hook),
        ]
    }

    fn calls(&self, service: &str, next: &str) -> DraftAction {
        let call = json!({ "site": service }).to_string();
        // What serde_json has written is JSON.
        let call = Payload::parse(call).unwrap_or_else(|_| Payload::null());
        let mut action = DraftAction::performed_by(Performer::Call(call), next);
        if let Some(timeout) = self.timeout {
            action.timeout = timeout;
        }
        if let Some(retry) = &self.retry {
            action.retry = retry.clone();
        }
        action
    }
}

/// Makes the calls of sites to where their services are now, whatever version of the machine they were written in, and leaves
/// all others to somebody else.
pub struct SiteCalls {
    endpoints: Endpoints,
    others: Arc<dyn Calls>,
}

/// A call of a site, which names its service.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteCall {
    site: String,
}

impl SiteCalls {
    /// These are the services, and these make calls.
    #[must_use]
    pub fn new(endpoints: Endpoints, others: Arc<dyn Calls>) -> Self {
        Self { endpoints, others }
    }
}

#[async_trait]
impl Calls for SiteCalls {
    async fn call(&self, call: &Payload, errand: &Errand) -> Result<Payload, StepError> {
        let Ok(SiteCall { site }) = call.decode() else { return self.others.call(call, errand).await };
        let named = self.endpoints.named().into_iter().find(|(name, _)| *name == site);
        let Some(url) = named.and_then(|(_, url)| url.as_deref()) else {
            // Whoever runs this may still name it.
            return Err(StepError::not_done(format!("lifecycle.sites.{site} is not set: name the service")));
        };
        let call = json!({ "http": { "method": "POST", "url": url } }).to_string();
        let call = Payload::parse(call).map_err(|why| StepError::refused(why.to_string()))?;
        self.others.call(&call, errand).await
    }

    fn protect(&self, call: &Payload) -> Result<Payload, String> {
        self.others.protect(call)
    }
}

fn declared() -> Draft {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let mut draft = Draft::new(MACHINE, PATH[0]);
    draft.title = Some("Site provisioning".to_owned());
    draft.subject = Some(SUBJECT.to_owned());
    draft.states = names(&PATH);
    draft.states.push(AWAITING_GITHUB.to_owned());
    draft.terminal = names(&["live"]);
    draft.edges = PATH.windows(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    draft.edges.push((PATH[1].to_owned(), AWAITING_GITHUB.to_owned()));
    draft.pause.insert(AWAITING_GITHUB.to_owned(), PATH[1].to_owned());
    draft.can_fail = names(&CAN_FAIL);
    draft.error_kinds = names(&ERROR_KINDS);
    draft
}
