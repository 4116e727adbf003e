//! An alert in words: for mail, for the log, and as JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use backstitch::{SagaId, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::alert::Alert;

/// The last second of the year 9999, which is where RFC 3339 ends.
const END_OF_TIME_SECONDS: u64 = 253_402_300_799;
/// Characters of a headline that are shown.
const HEADLINE: usize = 200;
/// Characters of an error that a mail shows.
const ERROR_IN_MAIL: usize = 8_000;
/// Characters of a channel's own failure that are kept.
const REASON: usize = 500;

/// What cannot stand for itself in one part of a path.
const NOT_IN_A_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The alert on one line: `rollback failed: payment of orders 0197a6b4-…`.
pub(super) fn headline(alert: &Alert) -> String {
    let mut line = alert.kind.replace('_', " ");
    if let Some(service) = &alert.service {
        let _ = write!(line, ": {service}");
    }
    if let Some(definition) = &alert.definition {
        let _ = write!(line, " of {definition}");
    }
    if let Some(saga) = alert.tx_id {
        let _ = write!(line, " {saga}");
    }
    one_line(&line, HEADLINE)
}

/// The alert as a letter.
pub(super) fn letter(alert: &Alert) -> String {
    let mut letter = format!("{}\n\n", summary(alert));
    let saga = alert.tx_id.map(|saga| saga.to_string());
    let fields = [
        ("Transaction", saga.as_deref()),
        ("Definition", alert.definition.as_deref()),
        ("Service", alert.service.as_deref()),
        ("Error", Some(alert.error.message.as_str())),
        ("Code", alert.error.code.as_deref()),
        ("Time", Some(rfc3339(alert.occurred_at).as_str())),
    ]
    .map(|(name, value)| value.map(|value| field(name, value)));
    letter.extend(fields.into_iter().flatten());
    if let Some(saga) = alert.tx_id {
        letter.push_str("\nWhat to do next:\n");
        letter.extend(advice(alert, saga).into_iter().map(|request| format!("  {request}\n")));
    }
    let _ = write!(
        letter,
        "\nAlert {}. A repeated mail has the same Message-ID.\n",
        one_line(&alert.key, HEADLINE)
    );
    letter
}

/// The alert for programs.
pub(super) fn json(alert: &Alert) -> Value {
    json!({
        "key": alert.key,
        "kind": alert.kind,
        "summary": headline(alert),
        "tx_id": alert.tx_id,
        "definition": alert.definition,
        "service": alert.service,
        "error": { "message": alert.error.message, "code": alert.error.code },
        "occurred_at": rfc3339(alert.occurred_at),
        "next": alert.tx_id.map(|saga| advice(alert, saga)).unwrap_or_default(),
    })
}

/// Why a channel failed, short enough to be kept.
pub(super) fn reason(why: &str) -> String {
    one_line(why, REASON)
}

/// A time as people and programs read it.
pub(super) fn rfc3339(at: Timestamp) -> String {
    let since_epoch = Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0));
    let told = UNIX_EPOCH + since_epoch.min(Duration::from_secs(END_OF_TIME_SECONDS));
    humantime::format_rfc3339_micros(told).to_string()
}

/// Nothing in it can end a line of a mail's head or of a log.
pub(super) fn one_line(text: &str, at_most: usize) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    cut(&line.collect::<String>(), at_most).into_owned()
}

fn summary(alert: &Alert) -> &'static str {
    match alert.kind.as_str() {
        "rollback_failed" => {
            "A step could not be undone, and it is not tried again by itself: a person has to decide."
        }
        "hook_failed" => {
            "A hook was given up: whoever it should have told of the saga's end does not know of it."
        }
        _ => "Something needs a person.",
    }
}

/// The requests to the server that help.
fn advice(alert: &Alert, saga: SagaId) -> Vec<String> {
    let show = format!("GET /v1/sagas/{saga}");
    let Some(step) = alert.service.as_deref().filter(|_| alert.kind == "rollback_failed") else {
        return vec![show, format!("GET /v1/sagas/{saga}/log")];
    };
    let step = utf8_percent_encode(step, NOT_IN_A_PATH);
    let resolve = |action: &str, meaning: &str| {
        let body = json!({ "action": action, "note": "who and why" });
        format!("POST /v1/sagas/{saga}/steps/{step}/resolve {body}  # {meaning}")
    };
    vec![
        show,
        resolve("retry", "try to undo it again"),
        resolve("skip", "leave it as it is"),
        resolve("done", "it was undone by hand"),
    ]
}

/// A further line of a value is indented, so that no value can pass for another field.
fn field(name: &str, value: &str) -> String {
    let value = cut(value, ERROR_IN_MAIL);
    let lines: Vec<String> = value.lines().map(|line| one_line(line, ERROR_IN_MAIL)).collect();
    format!("{:<13}{}\n", format!("{name}:"), lines.join("\n             "))
}

fn cut(text: &str, at_most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(at_most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{} […]", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::alert::Failure;
    use super::*;

    fn alert() -> Alert {
        Alert {
            key: "0197a6b4-6a3e-7000-8000-000000000001:9".to_owned(),
            kind: "rollback_failed".to_owned(),
            tx_id: "0197a6b4-6a3e-7000-8000-000000000001".parse().ok(),
            definition: Some("order".to_owned()),
            service: Some("payment".to_owned()),
            error: Failure { message: "no refund".to_owned(), code: Some("BANK_DOWN".to_owned()) },
            occurred_at: Timestamp::from_micros(1_767_225_600_000_001),
        }
    }

    #[test]
    fn a_headline_names_what_failed_and_where() {
        let expected = "rollback failed: payment of order 0197a6b4-6a3e-7000-8000-000000000001";
        assert_eq!(headline(&alert()), expected);
    }

    #[test]
    fn a_letter_says_what_happened_and_what_to_do() {
        let letter = letter(&alert());
        for expected in [
            "Transaction: 0197a6b4-6a3e-7000-8000-000000000001\n",
            "Service:     payment\n",
            "Error:       no refund\n",
            "Code:        BANK_DOWN\n",
            "Time:        2026-01-01T00:00:00.000001Z\n",
            "  GET /v1/sagas/0197a6b4-6a3e-7000-8000-000000000001\n",
            "  POST /v1/sagas/0197a6b4-6a3e-7000-8000-000000000001/steps/payment/resolve \
             {\"action\":\"skip\",\"note\":\"who and why\"}  # leave it as it is\n",
        ] {
            assert!(letter.contains(expected), "{expected:?} is missing:\n{letter}");
        }
    }

    #[test]
    fn a_hook_is_not_to_be_resolved() {
        let alert =
            Alert { kind: "hook_failed".to_owned(), service: Some("on_failure".to_owned()), ..alert() };
        let letter = letter(&alert);
        assert!(letter.contains("/log\n") && !letter.contains("resolve"), "{letter}");
    }

    #[test]
    fn no_value_passes_for_another_field_or_ends_a_line_of_the_head() {
        let forged = "no\r\nCode:        0\nBcc: all@example.com";
        let error = Failure { message: forged.to_owned(), code: None };
        let alert = Alert { error, service: Some(forged.to_owned()), ..alert() };
        assert!(!headline(&alert).contains(['\r', '\n']));
        let letter = letter(&alert);
        assert!(!letter.lines().any(|line| line.starts_with("Code") || line.starts_with("Bcc")), "{letter}");
        assert!(!letter.contains('\r'));
    }

    #[test]
    fn no_name_becomes_more_than_a_part_of_a_path() {
        let alert = Alert { service: Some("a/../b?c 'd'\n".to_owned()), ..alert() };
        let letter = letter(&alert);
        assert!(letter.contains("/steps/a%2F..%2Fb%3Fc%20%27d%27%0A/resolve {"), "{letter}");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        assert_eq!(one_line("äöü", 2), "äö […]");
        assert_eq!(one_line("äöü", 3), "äöü");
    }

    #[test]
    fn every_time_has_a_form() {
        assert_eq!(rfc3339(Timestamp::from_micros(i64::MAX)), "9999-12-31T23:59:59.000000Z");
        assert_eq!(rfc3339(Timestamp::from_micros(-1)), "1970-01-01T00:00:00.000000Z");
    }
}
