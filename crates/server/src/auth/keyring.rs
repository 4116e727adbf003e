//! The keys as they stood a moment ago, so that most requests ask no database.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use backstitch::Timestamp;
use backstitch::clock::Clock;
use backstitch::store::Error;
use backstitch_modules::masked_url;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ended;
use super::key;
use super::keys::{self, Kept, Standing};
use super::leave::{LOOK_EVERY, Right};
use super::role::Role;
use super::secret::{Hasher, Purpose};
use super::session::Session;
use crate::database::Database;
use crate::http::reports_on_the_database;

/// How long a look at the keys is good for: a revocation bites after this at the latest.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// How soon the keys are looked at again for one that was not there, so that a new key works at once and bad ones do not
/// keep the database busy.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How long a look may take: everybody waits for it, also whoever wants to know what is wrong with the database.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How long a route that reports on the database waits for a look. It then uses the keys that were read last.
const REPORT_WITHIN: Duration = Duration::from_secs(1);

/// Which keys count while the database does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// None: the request fails.
    Current,
    /// Those that were read last: for routes that report on the database.
    LastRead,
}

impl Keys {
    /// The keys for the route of this template.
    pub(crate) fn for_route(template: &str) -> Self {
        if reports_on_the_database(template) { Self::LastRead } else { Self::Current }
    }
}

/// Knows the keys.
pub(crate) struct Keyring {
    database: Database,
    hasher: Hasher,
    clock: Arc<dyn Clock>,
    seen: ArcSwap<Seen>,
    /// Held while the keys are read; how the last look failed, if it did.
    looking: Mutex<Option<FailedLook>>,
}

/// A look at the keys that failed.
struct FailedLook {
    at: Instant,
    why: String,
}

/// One look at the keys.
struct Seen {
    at: Instant,
    keys: HashMap<[u8; 32], Kept>,
    /// How they end.
    ends: HashSet<String>,
    /// The sessions that somebody signed out of.
    signed_out: HashSet<i64>,
}

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) role: Role,
}

impl Holder {
    fn of(key: &Kept) -> Self {
        Self { id: key.id, name: key.name.clone(), role: key.role }
    }

    /// Whether whoever this is may read what services are called with; where nobody needs a key, everybody may.
    pub(crate) fn sees_secrets(holder: Option<&Self>) -> bool {
        holder.is_none_or(|holder| holder.role.suffices_for(Role::Admin))
    }

    /// A URL as this holder may read it: tokens in its query are for those who see secrets.
    pub(crate) fn shown_url(holder: Option<&Self>, url: String) -> String {
        if Self::sees_secrets(holder) { url } else { masked_url(&url) }
    }
}

/// What a key is worth.
pub(crate) enum Verdict {
    Good(Holder),
    Unknown,
    Expired,
    Revoked,
}

impl Seen {
    /// The key with this number, if it opens anything.
    fn good(&self, id: i64, now: Timestamp) -> Option<&Kept> {
        self.keys.values().find(|key| key.id == id && key.standing(now) == Standing::Good)
    }

    /// The key of a session, if it opens anything and nobody has signed out.
    fn good_by(&self, session: Session, now: Timestamp) -> Option<&Kept> {
        let is_over = session.ends_at <= now || self.signed_out.contains(&session.nonce);
        self.good(session.key, now).filter(|_| !is_over)
    }
}

impl Keyring {
    pub(crate) async fn open(
        database: Database,
        hasher: Hasher,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let seen = ArcSwap::from_pointee(look(&database, clock.now()).await?);
        Ok(Self { database, hasher, clock, seen, looking: Mutex::default() })
    }

    /// Whether there has ever been a key. Revoked and expired ones count: taking the last key away opens nothing.
    pub(crate) async fn is_empty(&self, keys: Keys) -> Result<bool, Error> {
        Ok(self.seen_by(keys, FRESH_FOR).await?.keys.is_empty())
    }

    /// Whether any key opens anything now.
    pub(crate) async fn has_good_key(&self) -> Result<bool, Error> {
        let now = self.clock.now();
        let seen = self.seen_within(FRESH_FOR).await?;
        Ok(seen.keys.values().any(|key| key.standing(now) == Standing::Good))
    }

    /// Whether what somebody was let in by holds still. Keys that cannot be read stand as they were seen last: one that
    /// has expired meanwhile is known by the clock.
    pub(super) async fn holds(&self) -> impl Fn(Right) -> bool + use<> {
        let seen = match self.seen_within(LOOK_EVERY).await {
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(%error, "cannot reload API keys; keeping the cached ones");
                self.seen.load_full()
            }
        };
        let now = self.clock.now();
        move |right| match right {
            Right::Open => seen.keys.is_empty(),
            Right::Key(id) => seen.good(id, now).is_some(),
            Right::Session(session) => seen.good_by(session, now).is_some(),
        }
    }

    pub(crate) async fn verify(&self, keys: Keys, text: &str) -> Result<Verdict, Error> {
        self.verify_within(keys, FRESH_FOR, text).await
    }

    /// The same for a key that seemed to be none: it may have been made a moment ago.
    pub(crate) async fn verify_anew(&self, keys: Keys, text: &str) -> Result<Verdict, Error> {
        self.verify_within(keys, AGAIN_AFTER, text).await
    }

    async fn verify_within(&self, keys: Keys, age: Duration, text: &str) -> Result<Verdict, Error> {
        if !key::is_well_formed(text) {
            return Ok(Verdict::Unknown);
        }
        let seen = self.seen_by(keys, age).await?;
        // How a key ends is no secret, and what ends like none of them is not worth a hash.
        if !seen.ends.contains(key::last_four(text)) {
            return Ok(Verdict::Unknown);
        }
        let hash = self.hasher.hash(Purpose::ApiKey, text.as_bytes());
        let Some(key) = seen.keys.get(&hash) else { return Ok(Verdict::Unknown) };
        if !self.hasher.matches(Purpose::ApiKey, text.as_bytes(), &key.hash) {
            return Ok(Verdict::Unknown);
        }
        Ok(self.judge(key))
    }

    /// Who has a session, for as long as their key is good and they have not signed out.
    pub(crate) async fn verify_session(&self, keys: Keys, session: Session) -> Result<Option<Holder>, Error> {
        let seen = self.seen_by(keys, FRESH_FOR).await?;
        Ok(seen.good_by(session, self.clock.now()).map(Holder::of))
    }

    /// Ends a session, here at once and on other nodes with their next look.
    pub(crate) async fn sign_out(&self, session: Session) -> Result<(), Error> {
        ended::end(&self.database, session, self.clock.now()).await?;
        self.seen_within(Duration::ZERO).await?;
        Ok(())
    }

    fn judge(&self, key: &Kept) -> Verdict {
        match key.standing(self.clock.now()) {
            Standing::Good => Verdict::Good(Holder::of(key)),
            Standing::Expired => Verdict::Expired,
            Standing::Revoked => Verdict::Revoked,
        }
    }

    /// A look that is not older than this, or, for reports on a database that does not answer, the last one.
    async fn seen_by(&self, keys: Keys, age: Duration) -> Result<Arc<Seen>, Error> {
        if keys == Keys::Current {
            return self.seen_within(age).await;
        }
        if let Ok(Ok(seen)) = tokio::time::timeout(REPORT_WITHIN, self.seen_within(age)).await {
            return Ok(seen);
        }
        tracing::warn!("cannot reload API keys; keeping the cached ones for a report");
        Ok(self.seen.load_full())
    }

    /// A look that is not older than this; one that is too old is made anew, once for all who wait for it.
    async fn seen_within(&self, age: Duration) -> Result<Arc<Seen>, Error> {
        let fresh = |seen: &Seen| seen.at.elapsed() < age;
        let seen = self.seen.load_full();
        if fresh(&seen) {
            return Ok(seen);
        }
        let waits_since = Instant::now();
        let mut failed = self.looking.lock().await;
        let seen = self.seen.load_full();
        if fresh(&seen) {
            return Ok(seen);
        }
        // Requests that waited share the failure. Otherwise each would wait for a silent database in turn.
        if let Some(failed) = failed.as_ref().filter(|failed| failed.at > waits_since) {
            return Err(Error::Unavailable(failed.why.clone()));
        }
        let looked = tokio::time::timeout(ANSWER_WITHIN, look(&self.database, self.clock.now())).await;
        let silent =
            |_| Error::Unavailable(format!("the API keys could not be read within {ANSWER_WITHIN:?}"));
        match looked.map_err(silent).flatten() {
            Ok(seen) => {
                *failed = None;
                let seen = Arc::new(seen);
                self.seen.store(seen.clone());
                Ok(seen)
            }
            Err(error) => {
                let why = match &error {
                    Error::Unavailable(why) => why.clone(),
                    other => other.to_string(),
                };
                *failed = Some(FailedLook { at: Instant::now(), why });
                Err(error)
            }
        }
    }
}

async fn look(database: &Database, now: Timestamp) -> Result<Seen, Error> {
    // Before the question is asked: what is revoked while it is answered must not seem fresher than it is.
    let at = Instant::now();
    let kept = keys::list(database).await?;
    let signed_out = ended::list(database, now).await?;
    let by_hash = |key: Kept| Some((key.hash.as_slice().try_into().ok()?, key));
    let ends = kept.iter().map(|key| key.last_four.clone()).collect();
    Ok(Seen { at, ends, signed_out, keys: kept.into_iter().filter_map(by_hash).collect() })
}
