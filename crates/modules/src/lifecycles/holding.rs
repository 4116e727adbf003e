//! The actions that this process holds: how sure it is of each, and keeping it so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch::SagaId;
use tokio::time::Instant;

use super::base::Base;
use super::batch::Held;
use crate::question::{Statement, Value, statement};

const RENEW: Statement = statement!("lifecycles/renew");
const LET_GO: Statement = statement!("lifecycles/let_go");

/// What is held, by the number of its claim.
pub(super) struct Holding {
    base: Arc<Base>,
    lease: Duration,
    claims: Mutex<HashMap<SagaId, Claimed>>,
}

struct Claimed {
    token: u64,
    /// When the claim was known to stand.
    seen: Instant,
}

impl Holding {
    pub(super) fn new(base: Arc<Base>, lease: Duration) -> Self {
        Self { base, lease, claims: Mutex::default() }
    }

    pub(super) fn ids(&self) -> Vec<SagaId> {
        self.claims().keys().copied().collect()
    }

    pub(super) fn hold(&self, Held { standing, since, .. }: &Held) {
        let claimed = Claimed { token: standing.instance.token, seen: *since };
        self.claims().insert(standing.id, claimed);
    }

    /// A newer claim of the same instance stays.
    pub(super) fn drop_claim(&self, id: SagaId, token: u64) {
        let mut claims = self.claims();
        if claims.get(&id).is_some_and(|held| held.token == token) {
            claims.remove(&id);
        }
    }

    /// Whether a claim is young enough for something to begin under it.
    pub(super) fn may_begin(&self, id: SagaId, token: u64) -> bool {
        self.is_younger(id, token, self.lease * 3 / 5)
    }

    pub(super) fn still_ours(&self, id: SagaId, token: u64) -> bool {
        self.is_younger(id, token, self.lease)
    }

    fn is_younger(&self, id: SagaId, token: u64, age: Duration) -> bool {
        self.claims().get(&id).is_some_and(|held| held.token == token && held.seen.elapsed() < age)
    }

    /// Renews every claim in time, for as long as it is polled.
    pub(super) async fn keep_renewing(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.lease / 4).await;
            let asked = Instant::now();
            let Some(claims) = as_json(&self.numbered()) else { continue };
            match self.base.change(RENEW, vec![claims.into(), self.after(self.lease)]).await {
                Ok(rows) => {
                    let mut claims = self.claims();
                    for id in rows.iter().filter_map(|row| row.id(0).ok()) {
                        if let Some(held) = claims.get_mut(&id) {
                            held.seen = asked;
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "claims of actions cannot be renewed"),
            }
        }
    }

    /// Gives back whatever is held: nobody who stops on purpose has interrupted anything.
    pub(super) async fn let_all_go(&self) {
        self.let_go(&self.numbered(), Duration::ZERO).await;
    }

    /// Gives claims back, which are due for anybody after so long.
    pub(super) async fn let_go(&self, claims: &[(SagaId, u64)], after: Duration) {
        let Some(claims) = as_json(claims) else { return };
        if let Err(error) = self.base.change(LET_GO, vec![claims.into(), self.after(after)]).await {
            tracing::warn!(%error, "actions that were not begun wait for their claim to run out");
        }
    }

    /// A time so long from now, as each dialect is told it: a server goes by its own clock.
    fn after(&self, wait: Duration) -> Value {
        if self.base.is_shared() {
            i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).into()
        } else {
            self.base.now().plus(wait).into()
        }
    }

    fn numbered(&self) -> Vec<(SagaId, u64)> {
        self.claims().iter().map(|(id, held)| (*id, held.token)).collect()
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<SagaId, Claimed>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Claims as both dialects take them; none where there is none.
fn as_json(claims: &[(SagaId, u64)]) -> Option<String> {
    let one = |(id, token): &(SagaId, u64)| format!(r#"{{"id":"{id}","token":{token}}}"#);
    let claims: Vec<String> = claims.iter().map(one).collect();
    (!claims.is_empty()).then(|| format!("[{}]", claims.join(",")))
}
