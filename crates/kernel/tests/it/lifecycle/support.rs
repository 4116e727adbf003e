//! Seed 004's machine, without and with actions.

use std::time::Duration;

use backstitch_kernel::lifecycle::draft::Allowed;
use backstitch_kernel::lifecycle::{
    Decision, Draft, DraftAction, Failure, Given, Input, Instance, Machine, Recorded, Refused, decide,
};
use backstitch_kernel::{Payload, Performer, StepError, Timestamp};

pub(crate) const PATH: [&str; 8] = [
    "requested",
    "source_resolving",
    "source_resolved",
    "vercel_creating",
    "vercel_created",
    "hook_creating",
    "hook_created",
    "live",
];

pub(crate) fn site() -> Draft {
    let mut draft = Draft::new("site-provisioning", "requested");
    draft.states = PATH.into_iter().chain(["awaiting_github"]).map(str::to_owned).collect();
    draft.terminal = vec!["live".to_owned()];
    draft.edges = PATH.windows(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    draft.edges.push(("source_resolving".to_owned(), "awaiting_github".to_owned()));
    draft.pause.insert("awaiting_github".to_owned(), "source_resolving".to_owned());
    draft.can_fail =
        ["requested", "source_resolving", "vercel_creating", "hook_creating"].map(str::to_owned).to_vec();
    draft.error_kinds = ["github_api", "vercel_api", "no_github_token", "quota_exceeded", "internal"]
        .map(str::to_owned)
        .to_vec();
    draft
}

pub(crate) fn call() -> Performer {
    Performer::Call(Payload::parse("{\"url\":\"http://127.0.0.1:1\"}").unwrap())
}

/// The same with actions.
pub(crate) fn driven_site() -> Draft {
    let mut draft = site();
    let passing = [("requested", "source_resolving"), ("source_resolved", "vercel_creating")];
    for (state, next) in
        passing.into_iter().chain([("vercel_created", "hook_creating"), ("hook_created", "live")])
    {
        draft.actions.insert(state.to_owned(), DraftAction::passing_to(next));
    }
    let resolve =
        DraftAction::performed_by(call(), "source_resolved").on_error("no_github_token", "awaiting_github");
    draft.actions.insert("source_resolving".to_owned(), resolve);
    let create = DraftAction::performed_by(call(), "vercel_created");
    draft.actions.insert("vercel_creating".to_owned(), create);
    let hook = DraftAction::performed_by(Performer::Worker { queue: "hooks".to_owned() }, "hook_created");
    draft.actions.insert("hook_creating".to_owned(), hook);
    draft
}

pub(crate) fn machine() -> Machine {
    site().check().unwrap()
}

pub(crate) fn driven() -> Machine {
    driven_site().check().unwrap()
}

/// The time limit of the wait for GitHub, in seconds.
pub(crate) const PAUSE: i64 = 3600;

/// The same without actions, with an expiring pause.
pub(crate) fn expiring() -> Machine {
    let mut draft = site();
    let allowed = Allowed(Duration::from_secs(PAUSE.unsigned_abs()));
    draft.pause_expires.insert("awaiting_github".to_owned(), allowed);
    draft.check().unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

pub(crate) fn start() -> Input {
    Input::Start(Given::default())
}

pub(crate) fn start_as(correlation_id: &str) -> Input {
    Input::Start(Given { correlation_id: Some(correlation_id.to_owned()), input: None })
}

pub(crate) fn to(state: &str) -> Input {
    Input::Transition { to: state.to_owned(), data: None }
}

pub(crate) fn fail(kind: &str) -> Input {
    Input::Fail(Failure { kind: kind.to_owned(), message: "it broke".to_owned() })
}

pub(crate) fn abandon() -> Input {
    Input::Abandon { note: "the owner left".to_owned() }
}

/// An instance with all its decisions.
pub(crate) struct Life {
    pub(crate) machine: Machine,
    pub(crate) now: i64,
    pub(crate) instance: Option<Instance>,
    pub(crate) log: Vec<Recorded>,
}

impl Life {
    pub(crate) fn of(machine: Machine) -> Self {
        Self { machine, now: 0, instance: None, log: Vec::new() }
    }

    /// An instance in this state, reached by the happy path.
    pub(crate) fn standing_in(state: &str) -> Self {
        Self::of(machine()).brought_to(state)
    }

    /// A new instance, moved to a state by the happy path.
    pub(crate) fn brought_to(self, state: &str) -> Self {
        let mut life = self;
        life.tell(start()).unwrap();
        if state == "awaiting_github" {
            life.tell(to("source_resolving")).unwrap();
            life.tell(to("awaiting_github")).unwrap();
            return life;
        }
        if state == "failed" {
            life.tell(fail("internal")).unwrap();
            return life;
        }
        for next in PATH.iter().skip(1).take_while(|_| life.state() != state).copied().collect::<Vec<_>>() {
            if life.state() == state {
                break;
            }
            life.tell(to(next)).unwrap();
        }
        assert_eq!(life.state(), state);
        life
    }

    pub(crate) fn tell(&mut self, input: Input) -> Result<Decision, Refused> {
        self.now += 1;
        let decision = decide(&self.machine, "site-1", self.instance.as_ref(), input, at(self.now))?;
        self.log.extend(decision.events.iter().cloned());
        self.instance = Some(decision.instance.clone());
        Ok(decision)
    }

    pub(crate) fn answer(&mut self, outcome: Result<&str, StepError>) -> Result<Decision, Refused> {
        let Instance { entry, failures, token, .. } = *self.stands();
        let outcome = outcome.map(|result| Payload::parse(result).unwrap());
        self.tell(Input::Answered { entry, attempt: failures + 1, token: Some(token), outcome })
    }

    pub(crate) fn lease(&mut self) -> Result<Decision, Refused> {
        let Instance { entry, failures, .. } = *self.stands();
        self.tell(Input::Leased { entry, attempt: failures + 1 })
    }

    pub(crate) fn worker_times_out(&mut self) -> Result<Decision, Refused> {
        let Instance { entry, failures, token, .. } = *self.stands();
        self.tell(Input::WorkerTimedOut { entry, attempt: failures + 1, token })
    }

    pub(crate) fn stands(&self) -> &Instance {
        self.instance.as_ref().unwrap()
    }

    pub(crate) fn state(&self) -> &str {
        &self.stands().state
    }
}
