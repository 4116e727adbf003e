//! The keys as they stood a moment ago, so that most requests ask no database.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::Clock;
use backstitch::store::Error;
use backstitch_modules::masked_url;
use futures::FutureExt;

use super::ended;
use super::key;
use super::key_cache::{KeyCache, Snapshot};
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

/// Which keys count while the database is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// None: the request fails.
    Current,
    /// Those that were read last, for a quarter of an hour: for routes that report on the database.
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
    cache: KeyCache<Seen>,
}

/// One look at the keys.
struct Seen {
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
        let read = {
            let (database, clock) = (database.clone(), clock.clone());
            move || {
                let (database, now) = (database.clone(), clock.now());
                async move { look(&database, now).await }.boxed()
            }
        };
        let cache = KeyCache::open(read).await?;
        Ok(Self { database, hasher, clock, cache })
    }

    /// Whether there has ever been a key. Revoked and expired ones count: taking the last key away opens nothing.
    pub(crate) async fn is_empty(&self, keys: Keys) -> Result<bool, Error> {
        Ok(self.seen_by(keys, FRESH_FOR).await?.keys.is_empty())
    }

    /// Whether any key opens anything now.
    pub(crate) async fn has_good_key(&self) -> Result<bool, Error> {
        let now = self.clock.now();
        let seen = self.cache.within(FRESH_FOR).await?;
        Ok(seen.keys.values().any(|key| key.standing(now) == Standing::Good))
    }

    /// Whether what somebody was let in by holds still. While the database is unavailable, the keys that were read last count
    /// for a while: one that has expired meanwhile is known by the clock. After that nothing holds.
    pub(super) async fn holds(&self) -> impl Fn(Right) -> bool + use<> {
        let seen = self.cache.within_or_last(LOOK_EVERY).await;
        if let Err(error) = &seen {
            tracing::error!(%error, "API keys were last read too long ago; ending what they opened");
        }
        let now = self.clock.now();
        move |right| {
            seen.as_ref().is_ok_and(|seen| match right {
                Right::Open => seen.keys.is_empty(),
                Right::Key(id) => seen.good(id, now).is_some(),
                Right::Session(session) => seen.good_by(session, now).is_some(),
            })
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
        self.cache.within(Duration::ZERO).await?;
        Ok(())
    }

    fn judge(&self, key: &Kept) -> Verdict {
        match key.standing(self.clock.now()) {
            Standing::Good => Verdict::Good(Holder::of(key)),
            Standing::Expired => Verdict::Expired,
            Standing::Revoked => Verdict::Revoked,
        }
    }

    /// The keys as they were no longer than this ago, or, for reports on a database that is unavailable, as they were read last.
    async fn seen_by(&self, keys: Keys, age: Duration) -> Result<Arc<Snapshot<Seen>>, Error> {
        match keys {
            Keys::Current => self.cache.within(age).await,
            Keys::LastRead => self.cache.within_or_last(age).await,
        }
    }
}

async fn look(database: &Database, now: Timestamp) -> Result<Seen, Error> {
    let kept = keys::list(database).await?;
    let signed_out = ended::list(database, now).await?;
    let by_hash = |key: Kept| Some((key.hash.as_slice().try_into().ok()?, key));
    let ends = kept.iter().map(|key| key.last_four.clone()).collect();
    Ok(Seen { ends, signed_out, keys: kept.into_iter().filter_map(by_hash).collect() })
}
