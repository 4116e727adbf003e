//! Machines written in Rust.

use std::time::Duration;

use backstitch::kernel::lifecycle::draft::Allowed;
use backstitch::kernel::lifecycle::{Draft, DraftAction};
use backstitch::{Payload, Performer, Problems, Retry};
use serde_json::json;

/// Writes a machine down; see [`Machines::declare`](super::Machines::declare).
///
/// ```
/// use backstitch::{Retry, secs};
/// use backstitch_modules::lifecycles::Builder;
///
/// let machine = Builder::new("parcel", "packed")
///     .state("sent")
///     .terminal("delivered")
///     .pause("held", "sent")
///     .pause_expires("held", secs(30 * 86_400))
///     .edges([("packed", "sent"), ("sent", "delivered"), ("sent", "held")])
///     .can_fail(["packed", "sent"])
///     .error_kind("lost")
///     .call("packed", "http://carrier/pick-up", "sent")
///     .retry("packed", Retry::exponential(3, secs(1)))
///     .worker("sent", "drivers", "delivered")
///     .on_error("sent", "lost", "failed")
///     .stuck_after("sent", secs(86_400))
///     .build()?;
/// assert_eq!(machine.actions.len(), 2);
///
/// let mistaken = Builder::new("parcel", "packed").edge("packed", "nowhere").build().unwrap_err();
/// assert!(mistaken.to_string().contains("`nowhere` is no state"));
/// # Ok::<(), backstitch::Problems>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    draft: Draft,
}

impl Builder {
    /// A machine of this name that begins in this state.
    pub fn new(name: &str, initial: &str) -> Self {
        Self { draft: Draft::new(name, initial) }
    }

    /// What people read.
    pub fn title(mut self, title: &str) -> Self {
        self.draft.title = Some(title.to_owned());
        self
    }

    /// What the topics of its messages begin with; they end in the new state.
    pub fn subject(mut self, subject: &str) -> Self {
        self.draft.subject = Some(subject.to_owned());
        self
    }

    /// A state that others follow.
    pub fn state(mut self, state: &str) -> Self {
        self.draft.states.push(state.to_owned());
        self
    }

    /// A state that nothing follows.
    pub fn terminal(mut self, state: &str) -> Self {
        self.draft.terminal.push(state.to_owned());
        self.state(state)
    }

    /// A state that waits for a start, which goes on at `re_entry`.
    pub fn pause(mut self, state: &str, re_entry: &str) -> Self {
        self.draft.pause.insert(state.to_owned(), re_entry.to_owned());
        self.state(state)
    }

    /// A pause state that lasts longer than this is abandoned.
    pub fn pause_expires(mut self, state: &str, allowed: Duration) -> Self {
        self.draft.pause_expires.insert(state.to_owned(), Allowed(allowed));
        self
    }

    /// What may follow what.
    pub fn edge(mut self, from: &str, to: &str) -> Self {
        self.draft.edges.push((from.to_owned(), to.to_owned()));
        self
    }

    /// Several of these.
    pub fn edges<'a>(self, edges: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        edges.into_iter().fold(self, |builder, (from, to)| builder.edge(from, to))
    }

    /// From where it can fail.
    pub fn can_fail<'a>(mut self, states: impl IntoIterator<Item = &'a str>) -> Self {
        self.draft.can_fail.extend(states.into_iter().map(str::to_owned));
        self
    }

    /// What errors are told apart by.
    pub fn error_kind(mut self, kind: &str) -> Self {
        self.draft.error_kinds.push(kind.to_owned());
        self
    }

    /// A state that is only passed.
    pub fn passing(self, state: &str, next: &str) -> Self {
        self.action(state, DraftAction::passing_to(next))
    }

    /// A state in which this address is called, and what follows where that works.
    pub fn call(self, state: &str, url: &str, next: &str) -> Self {
        let call = json!({ "http": { "method": "POST", "url": url } }).to_string();
        // What serde_json has written is JSON.
        let call = Payload::parse(call).unwrap_or_else(|_| Payload::null());
        self.action(state, DraftAction::performed_by(Performer::Call(call), next))
    }

    /// A state whose work outside workers take from this queue, and what follows where that works.
    pub fn worker(self, state: &str, queue: &str, next: &str) -> Self {
        let performer = Performer::Worker { queue: queue.to_owned() };
        self.action(state, DraftAction::performed_by(performer, next))
    }

    /// What is done in a state.
    pub fn action(mut self, state: &str, action: DraftAction) -> Self {
        self.draft.actions.insert(state.to_owned(), action);
        self
    }

    /// Where errors of a kind lead, of an action that was named before.
    pub fn on_error(self, state: &str, kind: &str, next: &str) -> Self {
        self.acting(state, |action| {
            action.next.insert(kind.to_owned(), next.to_owned());
        })
    }

    /// How long one attempt may take, of an action that was named before; for a worker from when it leases the job.
    pub fn timeout(self, state: &str, timeout: Duration) -> Self {
        self.acting(state, |action| action.timeout = timeout)
    }

    /// How long an attempt may wait for a worker, of an action that was named before. Without this there is no end.
    pub fn queue_timeout(self, state: &str, timeout: Duration) -> Self {
        self.acting(state, |action| action.queue_timeout = Some(timeout))
    }

    /// How often it is tried again, of an action that was named before.
    pub fn retry(self, state: &str, retry: Retry) -> Self {
        self.acting(state, |action| action.retry = retry)
    }

    /// A state that lasts longer than this counts as stuck.
    pub fn stuck_after(mut self, state: &str, allowed: Duration) -> Self {
        self.draft.stuck_after.insert(state.to_owned(), Allowed(allowed));
        self
    }

    fn acting(mut self, state: &str, change: impl FnOnce(&mut DraftAction)) -> Self {
        // An action that is not there is a mistake that the check tells: nothing follows its answers.
        let missing =
            || DraftAction { next: std::collections::BTreeMap::new(), ..DraftAction::passing_to("") };
        change(self.draft.actions.entry(state.to_owned()).or_insert_with(missing));
        self
    }

    /// The machine, once it makes sense.
    ///
    /// # Errors
    /// All mistakes at once, each with its place.
    pub fn build(self) -> Result<Draft, Problems> {
        super::machines::check(&self.draft)?;
        Ok(self.draft)
    }
}
