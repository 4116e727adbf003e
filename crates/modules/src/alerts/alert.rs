//! What an alert says.

use backstitch::{Payload, SagaId, Timestamp};
use serde_json::Value;

/// Something that needs a person.
///
/// Only the engine's own alerts have all parts; any program may publish one, and must be heard as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Tells it from all others; a repeated notice has the same one.
    pub key: String,
    /// What happened: `rollback_failed` or `hook_failed`.
    pub kind: String,
    /// The transaction: the saga's id.
    pub tx_id: Option<SagaId>,
    /// The saga's definition.
    pub definition: Option<String>,
    /// The service that failed: the step, or the hook.
    pub service: Option<String>,
    /// Why.
    pub error: Failure,
    /// When.
    pub occurred_at: Timestamp,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What people read.
    pub message: String,
    /// What programs tell apart, such as `CARD_DECLINED`.
    pub code: Option<String>,
}

impl Alert {
    /// Reads an alert that was raised then. One that cannot be understood is still an alert: it says what it holds.
    pub(super) fn read(key: &str, payload: &Payload, raised_at: Timestamp) -> Self {
        let told: Value = payload.decode().unwrap_or_default();
        let text = |name: &str| told[name].as_str().map(str::to_owned);
        Self {
            key: key.to_owned(),
            kind: text("alert").unwrap_or_else(|| "alert".to_owned()),
            tx_id: told["saga_id"].as_str().and_then(|id| id.parse().ok()),
            definition: text("definition"),
            service: text("step").or_else(|| text("hook")),
            error: Failure::read(&told["error"]).unwrap_or_else(|| Failure::unnamed(payload)),
            occurred_at: told["at"].as_i64().map_or(raised_at, Timestamp::from_micros),
        }
    }
}

impl Failure {
    /// A step fails with a code and a message, a hook with a message alone.
    fn read(error: &Value) -> Option<Self> {
        let message = error.as_str().or_else(|| error["message"].as_str())?;
        Some(Self { message: message.to_owned(), code: error["code"].as_str().map(str::to_owned) })
    }

    fn unnamed(payload: &Payload) -> Self {
        Self { message: payload.as_str().to_owned(), code: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RAISED: Timestamp = Timestamp::from_micros(5);
    const SAGA: &str = "0197a6b4-6a3e-7000-8000-000000000001";

    fn read(told: &Value) -> Alert {
        Alert::read("k", &Payload::encode(told).unwrap(), RAISED)
    }

    #[test]
    fn a_failed_rollback_names_its_step_and_why() {
        let alert = read(&json!({
            "alert": "rollback_failed", "saga_id": SAGA, "definition": "order", "step": "payment", "at": 7,
            "error": { "kind": "failed", "code": "BANK_DOWN", "message": "no refund" },
        }));
        assert_eq!(alert.tx_id.unwrap().to_string(), SAGA);
        assert_eq!((alert.definition.as_deref(), alert.service.as_deref()), (Some("order"), Some("payment")));
        assert_eq!(
            alert.error,
            Failure { message: "no refund".to_owned(), code: Some("BANK_DOWN".to_owned()) }
        );
        assert_eq!(alert.occurred_at, Timestamp::from_micros(7));
    }

    #[test]
    fn a_failed_hook_happened_when_its_alert_was_raised() {
        let alert = read(&json!({
            "alert": "hook_failed", "saga_id": SAGA, "definition": "order", "hook": "on_failure", "error": "gone",
        }));
        assert_eq!((alert.kind.as_str(), alert.service.as_deref()), ("hook_failed", Some("on_failure")));
        assert_eq!((alert.error.message.as_str(), alert.occurred_at), ("gone", RAISED));
    }

    #[test]
    fn an_alert_in_no_known_form_says_all_it_holds() {
        let alert = read(&json!([1, "two"]));
        assert_eq!((alert.kind.as_str(), alert.error.message.as_str()), ("alert", r#"[1,"two"]"#));
        assert_eq!((alert.tx_id, alert.service), (None, None));
    }
}
