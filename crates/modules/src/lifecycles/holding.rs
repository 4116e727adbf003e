//! The actions that this process holds: how sure it is of each, and keeping it so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstitch::store::isolation::{Isolated, isolate};
use backstitch::store::parked::park;
use backstitch::{SagaId, store};
use tokio::time::Instant;

use super::base::Base;
use super::batch::Held;
use super::parked::ACTIONS;
use crate::question::{Record, Statement, Value, statement};

const RENEW: Statement = statement!("lifecycles/renew");
const LET_GO: Statement = statement!("lifecycles/let_go");

/// Claims that the database rejects to change, and why.
type Rejected = Vec<((SagaId, u64), store::Error)>;

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
    /// The database rejected a renewal: the claim runs out.
    is_rejected: bool,
}

impl Holding {
    pub(super) fn new(base: Arc<Base>, lease: Duration) -> Self {
        Self { base, lease, claims: Mutex::default() }
    }

    pub(super) fn ids(&self) -> Vec<SagaId> {
        self.claims().keys().copied().collect()
    }

    pub(super) fn hold(&self, Held { standing, since, .. }: &Held) {
        let claimed = Claimed { token: standing.instance.token, seen: *since, is_rejected: false };
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
            let Isolated { written, rejected, failed } =
                self.change_each(RENEW, self.numbered(|held| !held.is_rejected), self.lease).await;
            {
                let mut claims = self.claims();
                for id in written.iter().flatten().filter_map(|row| row.id(0).ok()) {
                    if let Some(held) = claims.get_mut(&id) {
                        held.seen = asked;
                    }
                }
                for ((id, token), _) in &rejected {
                    if let Some(held) = claims.get_mut(id).filter(|held| held.token == *token) {
                        held.is_rejected = true;
                    }
                }
            }
            self.park(rejected).await;
            if let Some(error) = failed {
                tracing::warn!(%error, "claims of actions cannot be renewed");
            }
        }
    }

    /// Gives back whatever is held: nobody who stops on purpose has interrupted anything.
    pub(super) async fn let_all_go(&self) {
        self.let_go(self.numbered(|_| true), Duration::ZERO).await;
    }

    /// Gives claims back, which are due for anybody after so long.
    pub(super) async fn let_go(&self, claims: Vec<(SagaId, u64)>, after: Duration) {
        let rejected = self.release(claims, after).await;
        self.park(rejected).await;
    }

    /// Gives back the claim of an action that is parked, so that it is due when its time comes.
    pub(super) async fn let_parked_go(&self, id: SagaId, token: u64) {
        // One that is rejected runs out by itself.
        self.release(vec![(id, token)], Duration::ZERO).await;
    }

    /// Gives claims back; those that the database rejects.
    async fn release(&self, claims: Vec<(SagaId, u64)>, after: Duration) -> Rejected {
        let Isolated { rejected, failed, .. } = self.change_each(LET_GO, claims, after).await;
        if let Some(error) = failed {
            tracing::warn!(%error, "actions that were not begun wait for their claim to run out");
        }
        rejected
    }

    /// Changes claims together. A claim that the database rejects keeps no other from being changed.
    async fn change_each(
        &self,
        statement: Statement,
        claims: Vec<(SagaId, u64)>,
        after: Duration,
    ) -> Isolated<(SagaId, u64), Vec<Record>, store::Error> {
        let after = self.after(after);
        let change =
            |claims: Vec<_>| self.base.change(statement, vec![as_json(&claims).into(), after.clone()]);
        Isolated::from(isolate(claims, change).await)
    }

    /// Nothing claims what is parked before its time.
    async fn park(&self, rejected: Rejected) {
        let rejected: Vec<_> = rejected.into_iter().map(|((id, _), error)| (id, error)).collect();
        if let Err(error) = park(&**self.base.store(), ACTIONS, &rejected).await {
            tracing::warn!(%error, "actions whose claims are rejected cannot be parked");
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

    fn numbered(&self, which: impl Fn(&Claimed) -> bool) -> Vec<(SagaId, u64)> {
        self.claims().iter().filter(|(_, held)| which(held)).map(|(id, held)| (*id, held.token)).collect()
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<SagaId, Claimed>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Claims as both dialects take them.
fn as_json(claims: &[(SagaId, u64)]) -> String {
    let one = |(id, token): &(SagaId, u64)| format!(r#"{{"id":"{id}","token":{token}}}"#);
    let claims: Vec<String> = claims.iter().map(one).collect();
    format!("[{}]", claims.join(","))
}
