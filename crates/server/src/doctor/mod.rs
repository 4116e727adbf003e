//! Whether anything is stuck, lagging or misconfigured, and what to do about it.
//!
//! Facts are gathered from the database and the machine, each question bounded and along an index; what they mean is decided
//! by functions of these facts alone, a file for each kind.

mod alerts;
mod check;
mod examination;
mod finding;
mod footing;
mod header_values;
mod jobs;
mod lifecycles;
mod outbox;
mod parked;
mod retention;
mod room;
mod sagas;
mod settings;
mod standing;
mod webhooks;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use backstitch::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

pub(crate) use check::Check;
use examination::Look;
pub(crate) use finding::{Diagnosis, Finding, Severity};

use crate::app::App;
use backstitch_api::time::rfc3339;
use header_values::StoredHeaders;
use sagas::LeftKey;

/// How long one diagnosis is given to whoever asks, where the look was short.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How long one diagnosis is given to whoever asks at most.
const GOOD_FOR_AT_MOST: Duration = Duration::from_secs(10);
/// No more than one part in so many of the time is spent looking: where a look takes long, the next one comes later.
const REST: u32 = 20;

/// How long a diagnosis is good for that took so long. One that could not look at everything is not kept for longer: whatever was
/// in the way may be over.
fn good_for(took: Duration, whole: bool) -> Duration {
    if whole { (took * REST).clamp(GOOD_FOR, GOOD_FOR_AT_MOST) } else { GOOD_FOR }
}

/// Looks after everything, at most one look at a time.
#[derive(Default)]
pub(crate) struct Doctor {
    last: Mutex<Option<Last>>,
    /// What lives of processes left behind, since it was first seen.
    left: Lock<HashMap<LeftKey, Timestamp>>,
    /// What is known of the header values of versions, by subject.
    headers: Lock<HashMap<(String, u32), StoredHeaders>>,
}

/// The last look.
struct Last {
    good_until: Instant,
    diagnosis: Arc<Diagnosis>,
}

impl Doctor {
    /// How everything is, as of a moment ago. Whoever asks meanwhile waits for the same look.
    pub(crate) async fn diagnose(&self, app: &App) -> Arc<Diagnosis> {
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| Instant::now() < last.good_until) {
            return last.diagnosis.clone();
        }
        let begun = Instant::now();
        let Look { found, whole } = examination::all(app, self).await;
        let now = app.engine.clock().now();
        let diagnosis = Arc::new(Diagnosis::of(&found, rfc3339(now)));
        app.metrics.diagnosed(&diagnosis.counts, now);
        // From when it is known: a look that took long is as good as one that did not.
        let good_until = Instant::now() + good_for(begun.elapsed(), whole);
        *last = Some(Last { good_until, diagnosis: diagnosis.clone() });
        diagnosis
    }

    fn known_headers(&self, subject: &str, version: u32) -> Option<StoredHeaders> {
        let headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        headers.get(&(subject.to_owned(), version)).cloned()
    }

    /// Remembers these versions, and forgets all others.
    fn remember_headers(&self, versions: &[header_values::CheckedVersion]) {
        let known = versions.iter().map(|it| ((it.subject.clone(), it.version), it.stored.clone()));
        *self.headers.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
    }

    /// Keeps in mind since when these were seen, and forgets all others.
    fn seen_since(&self, keys: Vec<LeftKey>, now: Timestamp) -> HashMap<LeftKey, Timestamp> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |key: LeftKey| {
            let first = left.get(&key).copied().unwrap_or(now);
            (key, first)
        };
        let seen: HashMap<LeftKey, Timestamp> = keys.into_iter().map(since).collect();
        left.clone_from(&seen);
        seen
    }
}

/// Looks now and then until the server closes, so that the metric is there when nobody asks.
pub(crate) async fn look_now_and_then(app: App) {
    let mut wait = app.config.doctor.interval;
    while app.closing.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        let begin = Instant::now();
        if app.closing.run_until_cancelled(app.doctor.diagnose(&app)).await.is_none() {
            return;
        }
        wait = app.config.doctor.interval.max(begin.elapsed() * REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_took_long_is_good_for_longer() {
        let good_for = |millis| super::good_for(Duration::from_millis(millis), true).as_millis();
        assert_eq!([1, 50, 100, 400, 5_000].map(good_for), [1_000, 1_000, 2_000, 8_000, 10_000]);
        assert_eq!(super::good_for(Duration::from_secs(5), false), GOOD_FOR, "the database may answer again");
    }

    #[test]
    fn what_was_left_is_known_since_it_was_first_seen_until_it_is_gone() {
        let doctor = Doctor::default();
        let key = |epoch| ("deploy".to_owned(), 1, epoch);
        let at = Timestamp::from_micros;
        doctor.seen_since(vec![key(1)], at(10));
        let seen = doctor.seen_since(vec![key(1), key(2)], at(20));
        assert_eq!((seen[&key(1)], seen[&key(2)]), (at(10), at(20)));
        doctor.seen_since(vec![key(2)], at(30));
        let seen = doctor.seen_since(vec![key(1), key(2)], at(40));
        assert_eq!((seen[&key(1)], seen[&key(2)]), (at(40), at(20)), "it was taken over, and is left again");
    }
}
