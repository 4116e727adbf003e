//! State-changed messages: each transition tells the world, in the transaction that makes it. Those of an instance are
//! delivered in the order of its log, across all topics that share a route.

use backstitch::kernel::lifecycle::{Event, FAILED, Machine, Recorded};
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

/// What is said of an event, if it is a transition.
pub(super) fn of(
    machine: &Machine,
    routes: &Routes,
    standing: &Standing,
    recorded: &Recorded,
) -> Option<Message> {
    let (from, to, attempt, error) = match &recorded.event {
        Event::Transitioned { from, to, attempt, error, .. } => (&**from, &**to, *attempt, error.as_ref()),
        Event::Failed { from, attempt, failure } => (&**from, FAILED, *attempt, Some(failure)),
        Event::Started(_) | Event::Restarted { .. } | Event::ActionRetry { .. } => return None,
    };
    let is_site = machine.name() == sites::MACHINE;
    let said = StateChanged {
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
    };
    // Names, numbers and times have a JSON form.
    let payload = Payload::encode(&said).ok()?;
    let topic = machine.topic(to);
    Some(Message {
        key: format!("{}:{}", standing.id, recorded.seq),
        ordering_key: standing.id.to_string(),
        ordering_scope: routes.ordering_scope(&topic),
        topic,
        payload,
    })
}
