//! Alerts that reach nobody.

use backstitch::Timestamp;
use backstitch_modules::alerts::{Missed, Undelivered};

use super::check::Check;
use super::finding::Finding;
use super::words::ago;

pub(super) fn judge(undelivered: &[Undelivered], now: Timestamp) -> Vec<Finding> {
    undelivered.iter().map(|alert| late(alert, now)).collect()
}

fn late(alert: &Undelivered, now: Timestamp) -> Finding {
    let (since, subject) = (ago(now.since(alert.raised_at)), Some(alert.key.clone()));
    let missed: Vec<String> = alert.missed.iter().map(told).collect();
    let is_untried = alert.missed.iter().all(|missed| missed.last_error.is_none());
    let why = match &alert.last_error {
        Some(error) if is_untried => error.clone(),
        None if missed.is_empty() => "no channel was tried yet".to_owned(),
        _ => missed.join("; "),
    };
    let action = "see to the channel, or correct its settings in `[alerts]` and restart; `GET /v1/admin/alerts` shows the \
                  alert, which is tried until it is out"
        .to_owned();
    if alert.reached == 0 {
        Check::Alerts.error(subject, format!("for {since} this alert has reached nobody: {why}"), action)
    } else {
        Check::Alerts.warning(subject, format!("for {since} this alert has not reached all: {why}"), action)
    }
}

fn told(missed: &Missed) -> String {
    let Missed { channel, recipient, last_error } = missed;
    let whom = recipient.as_ref().map(|recipient| format!(" to {recipient}")).unwrap_or_default();
    let why = last_error.as_deref().unwrap_or("it was not tried yet");
    format!("{channel}{whom}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn alert(reached: usize, missed: Vec<Missed>) -> Undelivered {
        let raised_at = Timestamp::from_micros(0);
        Undelivered { key: "a:1".to_owned(), raised_at, reached, missed, last_error: None }
    }

    fn missed(recipient: Option<&str>, error: Option<&str>) -> Missed {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Missed { channel: "email".to_owned(), recipient: owned(recipient), last_error: owned(error) }
    }

    #[test]
    fn an_alert_that_reached_nobody_is_an_error_and_one_that_missed_somebody_a_warning() {
        let now = Timestamp::from_micros(360_000_000);
        for (reached, severity, word) in
            [(0, Severity::Error, "reached nobody"), (2, Severity::Warning, "not reached all")]
        {
            let missed = vec![missed(Some("ada@example.com"), Some("refused")), missed(None, None)];
            let found = judge(&[alert(reached, missed)], now);
            assert_eq!((found[0].check, found[0].severity), (Check::Alerts, severity));
            assert!(found[0].message.starts_with("for 6m") && found[0].message.contains(word), "{found:?}");
            assert!(
                found[0].message.contains("email to ada@example.com: refused; email: it was not tried yet")
            );
        }
    }

    #[test]
    fn without_a_try_the_reason_is_that_of_the_send() {
        let now = Timestamp::from_micros(1);
        for missed in [Vec::new(), vec![missed(None, None)]] {
            let failed =
                Undelivered { last_error: Some("the database is full".to_owned()), ..alert(0, missed) };
            assert!(judge(&[failed], now)[0].message.ends_with("the database is full"));
        }
        assert!(judge(&[alert(0, Vec::new())], now)[0].message.ends_with("no channel was tried yet"));
        assert_eq!(judge(&[], now), []);
    }
}
