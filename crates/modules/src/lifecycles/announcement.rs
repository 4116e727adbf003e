//! Messages about lifecycles: one for each transition and one for an abandonment, in the transaction that makes it. Those of
//! an instance are delivered in the order of its log, across all topics that share a route.

use backstitch::kernel::lifecycle::{AbandonReason, Event, FAILED, Machine, Recorded};
use backstitch::outbox::Routes;
use backstitch::{Payload, Rfc3339};
use serde::Serialize;

use super::sites;
use super::standing::Standing;

/// A message that is to leave through the outbox.
pub(super) struct Message {
    pub(super) topic: String,
    pub(super) key: String,
    /// The instance.
    pub(super) ordering_key: String,
    /// The topics across which its messages keep their order.
    pub(super) ordering_scope: Option<String>,
    pub(super) payload: Payload,
}

/// What a message says.
#[derive(Serialize)]
struct StateChanged<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    machine: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_id: Option<&'a str>,
    from_state: &'a str,
    to_state: &'a str,
    attempt: u32,
    correlation_id: Option<&'a str>,
    error_kind: Option<&'a str>,
    at: Rfc3339,
    /// Its place in the log, so that a receiver can tell a repeated message from a new one.
    seq: u64,
}

/// What the message of an abandoned lifecycle says.
#[derive(Serialize)]
struct Abandoned<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    machine: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_id: Option<&'a str>,
    /// The pause state it stays in.
    state: &'a str,
    attempt: u32,
    correlation_id: Option<&'a str>,
    reason: &'a str,
    at: Rfc3339,
    seq: u64,
}

/// The last part of the topic that abandoned lifecycles are published to.
const ABANDONED: &str = "abandoned";

/// The message of an event; none where it has none.
pub(super) fn of(
    machine: &Machine,
    routes: &Routes,
    standing: &Standing,
    recorded: &Recorded,
) -> Option<Message> {
    // Names, numbers and times have a JSON form.
    let (topic, payload) = if let Event::Abandoned { state, attempt, reason } = &recorded.event {
        let said = abandoned(machine, standing, recorded, (state, *attempt, reason));
        (machine.topic(ABANDONED), Payload::encode(&said).ok()?)
    } else {
        let said = state_changed(machine, standing, recorded)?;
        (machine.topic(said.to_state), Payload::encode(&said).ok()?)
    };
    Some(Message {
        key: format!("{}:{}", standing.id, recorded.seq),
        ordering_key: standing.id.to_string(),
        ordering_scope: routes.ordering_scope(&topic),
        topic,
        payload,
    })
}

fn abandoned<'a>(
    machine: &'a Machine,
    standing: &'a Standing,
    recorded: &Recorded,
    (state, attempt, reason): (&'a str, u32, &AbandonReason),
) -> Abandoned<'a> {
    let is_site = machine.name() == sites::MACHINE;
    Abandoned {
        kind: if is_site { sites::ABANDONED } else { "LifecycleAbandoned" },
        machine: machine.name(),
        key: &standing.key,
        site_id: is_site.then_some(&standing.key),
        state,
        attempt,
        correlation_id: standing.instance.given.correlation_id.as_deref(),
        reason: reason.name(),
        at: Rfc3339(recorded.at),
        seq: recorded.seq,
    }
}

fn state_changed<'a>(
    machine: &'a Machine,
    standing: &'a Standing,
    recorded: &'a Recorded,
) -> Option<StateChanged<'a>> {
    let (from, to, attempt, error) = match &recorded.event {
        Event::Transitioned { from, to, attempt, error, .. } => (&**from, &**to, *attempt, error.as_ref()),
        Event::Failed { from, attempt, failure } => (&**from, FAILED, *attempt, Some(failure)),
        Event::Started(_)
        | Event::Restarted { .. }
        | Event::ActionRetry { .. }
        | Event::ActionLeased { .. }
        | Event::Abandoned { .. } => return None,
    };
    let is_site = machine.name() == sites::MACHINE;
    Some(StateChanged {
        kind: if is_site { sites::STATE_CHANGED } else { "LifecycleStateChanged" },
        machine: machine.name(),
        key: &standing.key,
        site_id: is_site.then_some(&standing.key),
        from_state: from,
        to_state: to,
        attempt,
        correlation_id: standing.instance.given.correlation_id.as_deref(),
        error_kind: error.map(|failure| failure.kind.as_str()),
        at: Rfc3339(recorded.at),
        seq: recorded.seq,
    })
}
