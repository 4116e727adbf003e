//! What hands out attempts: to this process, and to outside workers, within the same limits.

use std::sync::Arc;
use std::time::Duration;

use backstitch::clock::Clock;
use backstitch::delivery::limiter::Limiter;
use backstitch::delivery::{Claimed, Claimer};

use super::call::{Call, Uncallable};
use super::claims::WebhookClaims;
use super::error::Error;
use super::jobs::{Expired, Jobs, Lane, Sent};
use super::membership::Membership;
use super::vault::Vault;

/// Hands out attempts: to the workers of this process, and to those outside. Both hold themselves to the same limits, and to
/// this node's share of them.
pub struct Dispatch {
    pub(super) jobs: Arc<Jobs>,
    pub(super) membership: Arc<Membership>,
    pub(super) limiter: Limiter<i64>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) claimer: Claimer<WebhookClaims>,
}

/// An attempt that this process or an outside worker is to make.
pub(super) type WebhookClaim = Claimed<WebhookClaims>;

/// A delivery that some node has handed out.
pub(super) struct HandedOut {
    pub(super) lane: i64,
    /// How long its request may take.
    pub(super) timeout: Duration,
    /// What was to be sent; nothing where the subscription may have been another at that time.
    pub(super) sent: Option<Sent>,
}

impl Dispatch {
    /// Hands out these jobs as one of these members, within the limits of this limiter, signed with the secrets of this vault.
    #[must_use]
    pub fn new(
        jobs: Arc<Jobs>,
        membership: Arc<Membership>,
        limiter: Limiter<i64>,
        vault: Vault,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let claims = WebhookClaims::new(jobs.clone(), membership.clone(), vault);
        let claimer = Claimer::new(claims, limiter.clone());
        Self { jobs, membership, limiter, clock, claimer }
    }

    /// Leaves everything to the other nodes: nothing more is handed out here for now.
    pub async fn leave(&self) {
        self.membership.leave().await;
    }

    /// How an endpoint is called.
    pub(super) fn call(&self, lane: Lane) -> Result<Arc<Call>, Uncallable> {
        self.claimer.policy().call(lane)
    }

    /// What is known of a delivery that another node has handed out, or an earlier process of this one.
    pub(super) async fn handed_out(&self, job: i64) -> Result<Option<HandedOut>, Error> {
        let Some((lane, is_as_then)) = self.jobs.lane_of(job).await? else { return Ok(None) };
        let (id, timeout) = (lane.id, lane.timeout);
        let call = if is_as_then { self.call(lane).ok() } else { None };
        Ok(Some(HandedOut { lane: id, timeout, sent: call.map(|call| call.sent().clone()) }))
    }

    /// Requeues jobs whose leases have expired.
    pub(super) async fn expire(&self) -> Result<(), Error> {
        if self.jobs.expire().await? != Expired::default() {
            self.membership.outside_lease_ended();
        }
        Ok(())
    }

    /// Gives back a claim that came too late for its request. Nothing was sent, so it costs no attempt and no lease.
    pub(super) async fn give_back(&self, late: WebhookClaim) {
        let (job, token) = (late.claim.item.job, late.claim.item.token);
        match self.jobs.give_back(job, token).await {
            Ok(_) => tracing::warn!(job, "webhook lease answered too late; job given back"),
            Err(error) => {
                tracing::warn!(job, %error, "webhook job not given back; it waits until its lease expires");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use backstitch::clock::SystemClock;
    use backstitch::delivery::limiter::LimiterSettings;
    use backstitch::delivery::membership::MembershipSettings;
    use backstitch::delivery::{PollScope, PollSummary};
    use backstitch::store::sqlite::SqliteStore;
    use backstitch::{Engine, Options, Payload};

    use super::*;
    use crate::randomness::SystemRandomness;
    use crate::webhooks::claims::Claimant;
    use crate::webhooks::egress::Egress;
    use crate::webhooks::{NewEvent, Registrar, SCHEMA, Terms, Webhooks, membership};

    #[tokio::test]
    async fn disabled_endpoints_count_as_polled() {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("hooks.db"), Arc::new(SystemClock));
        let store = SqliteStore::open_with(&path, clock.clone(), &[&SCHEMA]).unwrap();
        let engine = Engine::on_store(Arc::new(store), Options::default()).await.unwrap();
        let webhooks = Webhooks::open(&engine).await.unwrap();
        let vault = Vault::new(&[7; 32]).unwrap();
        let subscriptions = webhooks.subscriptions.clone();
        let registrar =
            Registrar::new(subscriptions, Egress::default(), vault.clone(), Arc::new(SystemRandomness));
        let terms = Terms::to("https://example.com/hooks", vec!["*".to_owned()]);
        let mut ids = Vec::new();
        for is_open in [false, true, false] {
            let (made, _) = registrar.create(&terms, &[], None).await.unwrap();
            ids.push(made.id);
            if !is_open {
                webhooks.subscriptions.disable(made.id, "no more").await.unwrap();
            }
        }
        let payload = Payload::parse("{}").unwrap();
        let event = NewEvent { id: None, kind: "order.created".to_owned(), payload };
        assert_eq!(webhooks.ingest.accept(event).await.unwrap().deliveries, 3);
        webhooks.orchestrator.settle().await.unwrap();
        let membership = Arc::new(membership(&webhooks.jobs, MembershipSettings::default()));
        let limiter = Limiter::new(LimiterSettings::default());
        let dispatch = Dispatch::new(webhooks.jobs.clone(), membership, limiter, vault, clock);
        let claim = async |scope| {
            let batch = dispatch.claimer.claim(&scope, 10, Claimant::ThisProcess).await.unwrap();
            (batch.claimed.len(), batch.summary)
        };
        let (claimed, PollSummary { polled, busy, .. }) = claim(PollScope::All).await;
        assert_eq!((polled, busy, claimed), (3, vec![ids[1]], 1));
        let (_, PollSummary { polled, complete, .. }) = claim(PollScope::All).await;
        assert_eq!((polled, complete), (2, true), "each once, wherever the poll began");
        let (claimed, PollSummary { polled, .. }) = claim(PollScope::These(ids)).await;
        assert_eq!((polled, claimed), (2, 0));
        engine.shutdown().await.unwrap();
    }
}
