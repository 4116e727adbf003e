//! Every remote command, with a server that records its requests.

use serde_json::{Value, json};

use crate::cli::stub::{Stub, answer};

const ID: &str = "01923c4e-5b6a-7000-8000-000000000001";
const SAGA: &str = "name: d\nsteps:\n  - { id: hello, action: { worker: { queue: words } } }\n";
const MACHINE: &str = "name: m\ninitial: a\nstates: [a, b]\nterminal: [b]\nedges: [[a, b]]\n";
const SINCE: &str = "2030-01-31T12:00:00Z";

/// A command with its standard input.
pub(crate) type Verb = (&'static [&'static str], &'static str);

/// All of them.
pub(crate) const VERBS: [Verb; 69] = [
    (&["start", "order", "--follow", "--patience", "0s"], ""),
    (&["ps"], ""),
    (&["show", ID], ""),
    (&["log", ID], ""),
    (&["follow", ID, "--patience", "0s"], ""),
    (&["cancel", ID], ""),
    (&["pause", ID], ""),
    (&["resume", ID], ""),
    (&["resolve", ID, "payment", "done", "--note", "n"], ""),
    (&["orders", "start", "-", "--follow", "--patience", "0s"], "{}"),
    (&["orders", "show", ID], ""),
    (&["orders", "log", ID], ""),
    (&["orders", "services", "show"], ""),
    (&["orders", "services", "stage", "-"], "{}"),
    (&["orders", "services", "apply"], ""),
    (&["orders", "services", "discard"], ""),
    (&["orders", "timeouts", "show"], ""),
    (&["orders", "timeouts", "stage", "-"], "{}"),
    (&["orders", "timeouts", "apply"], ""),
    (&["orders", "timeouts", "discard"], ""),
    (&["sites", "start", "s-1"], ""),
    (&["sites", "show", "s-1"], ""),
    (&["definitions", "list"], ""),
    (&["definitions", "show", "d"], ""),
    (&["definitions", "put", "-"], SAGA),
    (&["definitions", "apply", "d"], ""),
    (&["definitions", "discard", "d"], ""),
    (&["lifecycles", "list"], ""),
    (&["lifecycles", "list", "m"], ""),
    (&["lifecycles", "show", "m"], ""),
    (&["lifecycles", "show", "m", "k"], ""),
    (&["lifecycles", "log", "m", "k"], ""),
    (&["lifecycles", "start", "m", "k"], ""),
    (&["lifecycles", "transition", "m", "k", "s"], ""),
    (&["lifecycles", "fail", "m", "k", "internal", "--message", "lost"], ""),
    (&["lifecycles", "abandon", "m", "k", "--note", "left"], ""),
    (&["lifecycles", "dead-letters"], ""),
    (&["lifecycles", "put", "-"], MACHINE),
    (&["lifecycles", "apply", "m"], ""),
    (&["lifecycles", "discard", "m"], ""),
    (&["webhooks", "subscriptions", "list"], ""),
    (&["webhooks", "subscriptions", "show", "3"], ""),
    (&["webhooks", "subscriptions", "create", "--url", "http://a", "--events", "*"], ""),
    (&["webhooks", "subscriptions", "update", "3", "--disable"], ""),
    (&["webhooks", "subscriptions", "delete", "3"], ""),
    (&["webhooks", "subscriptions", "rotate-secret", "3"], ""),
    (&["webhooks", "subscriptions", "test", "3"], ""),
    (&["webhooks", "events", "send", "a.b"], ""),
    (&["webhooks", "events", "show", "3"], ""),
    (&["webhooks", "deliveries", "list"], ""),
    (&["webhooks", "deliveries", "show", "3"], ""),
    (&["webhooks", "replay", "3", "--since", SINCE, "--until", SINCE], ""),
    (&["dead-letters", "list"], ""),
    (&["dead-letters", "show", "3"], ""),
    (&["dead-letters", "requeue", "3"], ""),
    (&["dead-letters", "requeue", "--all"], ""),
    (&["outbox", "list"], ""),
    (&["outbox", "show", "3"], ""),
    (&["outbox", "publish", "news"], ""),
    (&["outbox", "retry", "3"], ""),
    (&["parked", "list"], ""),
    (&["parked", "retry", "outbox:3"], ""),
    (&["parked", "retry", "--all"], ""),
    (&["parked", "remove-conflict", "webhook_results:3"], ""),
    (&["alerts", "list"], ""),
    (&["alerts", "acknowledge", "3"], ""),
    (&["audit"], ""),
    (&["health"], ""),
    (&["doctor"], ""),
];

/// How a server words its answers.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// What people read.
    pub(crate) text: &'static str,
    /// Ids, names and other arguments.
    pub(crate) id: &'static str,
    /// Where things stand.
    pub(crate) status: &'static str,
    /// What the doctor finds.
    pub(crate) findings: usize,
}

/// Members that are text; which answer has which of them does not matter.
const TEXTS: [&str; 42] = [
    "action",
    "base_delay",
    "body",
    "channel",
    "check",
    "correlation_id",
    "definition",
    "detail",
    "disabled_reason",
    "error_code",
    "error_kind",
    "event",
    "failed_step",
    "final_error_code",
    "from",
    "held_up",
    "idempotency_key",
    "input",
    "kind",
    "last_error",
    "last_error_code",
    "last_error_msg",
    "message",
    "method",
    "node",
    "note",
    "ordering_key",
    "outcome",
    "path",
    "payload",
    "peer",
    "phase",
    "reason",
    "result",
    "role",
    "rollback_url",
    "service",
    "severity",
    "source",
    "step",
    "subject",
    "url",
];

/// Members by which something is named.
const IDS: [&str; 16] = [
    "event_id",
    "id",
    "key",
    "machine",
    "name",
    "number",
    "replay_id",
    "requeue_of",
    "requeued_as",
    "revision",
    "site_id",
    "standing",
    "subscription_id",
    "topic",
    "tx_id",
    "webhook_id",
];

impl Words {
    /// One thing of any kind.
    fn one(self) -> Value {
        let mut one = json!({
            "seq": 1, "version": 1, "attempt": 1, "changed": false, "enabled": true, "paused": true, "ended": true,
            "type": self.text, "status": self.status, "state": self.status, "what": self.text, "headers": { self.text: self.text },
            "error": { "message": self.text, "kind": self.text, "code": self.text }, "event_types": [self.text],
            "follows": [self.text], "attributes": { self.text: self.text }, "at": self.id, "created_at": self.id,
            "updated_at": self.id, "response_code": self.text, "arrived": self.text, "secret": self.text,
        });
        for name in TEXTS {
            one[name] = self.text.into();
        }
        for name in IDS {
            one[name] = self.id.into();
        }
        one
    }

    /// An answer to anything, with another page after it or not.
    fn answer(self, has_more: bool) -> Value {
        let mut answer = self.one();
        for part in ["attempts", "checks", "in_flight", "items", "steps", "stuck", "unregistered", "versions"]
        {
            answer[part] = json!([self.one()]);
        }
        // As services, as timeouts, and as counts.
        let endpoints = json!({ self.id: { "url": self.text, "rollback_url": self.text } });
        for standing in ["active", "staged"] {
            answer[standing] = json!({ "order": [self.id], "endpoints": endpoints, self.id: self.text });
        }
        answer["counts"] = json!({ self.id: self.text });
        answer["diagram"] = self.id.into();
        answer["findings"] = vec![self.one(); self.findings].into();
        answer["lifecycles"] = json!({ "stuck": self.text });
        answer["retention"] = json!({ "last_run": self.id, "held_up": self.text });
        answer["next_cursor"] = if has_more { self.id.into() } else { Value::Null };
        answer
    }

    /// The answer to a request: one page is followed by another, and a saga's events come as a stream.
    fn reply(self, request: &str) -> Vec<u8> {
        let line = request.lines().next().unwrap_or_default();
        if line.contains("/events HTTP") && line.starts_with("GET") {
            let kinds = ["saga.compensating", "step.failed", self.text];
            let events = kinds.iter().enumerate().map(|(number, kind)| {
                let mut event = self.one();
                (event["seq"], event["type"]) = ((number + 1).into(), (*kind).into());
                format!("data: {event}\n\n")
            });
            return answer("200 OK", "text/event-stream", &events.collect::<String>()).into();
        }
        let has_more = line.starts_with("GET") && !line.contains("cursor=");
        answer("200 OK", "application/json", &self.answer(has_more).to_string()).into()
    }

    /// A server that speaks so.
    pub(crate) async fn spoken(self) -> Stub {
        Stub::replying(move |request| self.reply(request)).await
    }
}
