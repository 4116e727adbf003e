//! Webhooks on a throwaway store, with everything that delivers them in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstitch::clock::SystemClock;
use backstitch::delivery::limiter::{Limiter, LimiterSettings};
use backstitch::delivery::membership::MembershipSettings;
use backstitch::{Engine, Options, Payload};
use backstitch_modules::randomness::SystemRandomness;
use backstitch_modules::webhooks::egress::Egress;
use backstitch_modules::webhooks::sender::{self, Sender};
use backstitch_modules::webhooks::vault::Vault;
use backstitch_modules::webhooks::{
    DeliveryWorker, Dispatch, NewEvent, Observer, Progress, Registrar, SCHEMA, Terms, Webhooks, membership,
};
use tokio_util::task::AbortOnDropHandle;

use super::super::target::Target;
use super::Failure;
use super::receiver::{Arrivals, Manner, Receiver};

/// Requests at once to one endpoint.
const PER_ENDPOINT: u32 = 64;
/// How long an endpoint that never answers holds a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Everything that is measured, until it is dropped.
pub(super) struct Stage {
    webhooks: Webhooks,
    engine: Engine,
    pub(super) arrivals: Arc<Arrivals>,
    completed: Arc<Completed>,
    endpoints: usize,
    _receiver: Receiver,
    _running: [AbortOnDropHandle<()>; 2],
}

#[derive(Default)]
struct Completed(AtomicUsize);

impl Observer for Completed {
    fn progressed(&self, progress: &Progress) {
        self.0.fetch_add(progress.completed, Ordering::Relaxed);
    }
}

impl Stage {
    /// One endpoint for each of these, and as many events as may come.
    pub(super) async fn set(target: &Target, endpoints: &[Manner], events: usize) -> Result<Self, Failure> {
        let address = target.address().ok_or("webhooks need a database: use sqlite or postgres://…")?;
        let engine =
            Engine::open_with(&address, Options { products: vec![&SCHEMA], ..Options::default() }).await?;
        let webhooks = Webhooks::open(&engine).await?;
        let arrivals = Arrivals::of(events);
        let receiver = Receiver::start(arrivals.clone()).await?;
        let egress = Egress::allowing(&["127.0.0.0/8"])?;
        let vault = Vault::new(&[0; 32])?;
        let subscriptions = webhooks.subscriptions.clone();
        let registrar =
            Registrar::new(subscriptions.clone(), egress.clone(), vault.clone(), Arc::new(SystemRandomness));
        for (nth, manner) in endpoints.iter().enumerate() {
            let terms = Terms {
                max_concurrency: PER_ENDPOINT,
                timeout: TIMEOUT,
                ..Terms::to(receiver.url(*manner), vec![kind(nth)])
            };
            registrar.create(&terms, &[], None).await?;
        }
        let clock = Arc::new(SystemClock);
        let sender = Sender::new(egress, sender::Settings::default(), clock.clone())?;
        let limiter = Limiter::new(LimiterSettings::default());
        let membership = Arc::new(membership(&webhooks.jobs, MembershipSettings::default()));
        let dispatch = Arc::new(Dispatch::new(webhooks.jobs.clone(), membership, limiter, vault, clock));
        let completed = Arc::new(Completed::default());
        let worker = DeliveryWorker::new(dispatch, sender, subscriptions, completed.clone());
        let (orchestrator, counted) = (webhooks.orchestrator.clone(), completed.clone());
        let running = [
            tokio::spawn(async move { worker.run(std::future::pending()).await }),
            tokio::spawn(async move { orchestrator.run(&*counted).await }),
        ];
        let running = running.map(AbortOnDropHandle::new);
        Ok(Self {
            webhooks,
            engine,
            arrivals,
            completed,
            endpoints: endpoints.len(),
            _receiver: receiver,
            _running: running,
        })
    }

    /// Takes in one event; it is on disk when this returns.
    pub(super) async fn ingest(&self, number: usize) -> Result<(), Failure> {
        let body = serde_json::json!({
            "number": number, "order_id": format!("order-{number}"), "customer_id": "c-4711", "amount": "19.90",
            "items": [{"sku": "A-100", "quantity": 2}, {"sku": "B-200", "quantity": 1}],
        });
        let event =
            NewEvent { id: None, kind: kind(number % self.endpoints), payload: Payload::encode(&body)? };
        self.webhooks.ingest.accept(event).await?;
        Ok(())
    }

    /// How many deliveries are at their good end.
    pub(super) fn completed(&self) -> usize {
        self.completed.0.load(Ordering::Relaxed)
    }

    /// Stops everything, and gives the store free.
    pub(super) async fn clear(self) -> Result<(), Failure> {
        let Self { webhooks, engine, .. } = self;
        drop(webhooks);
        Ok(engine.shutdown().await?)
    }
}

/// The type of events that go to this endpoint.
fn kind(endpoint: usize) -> String {
    format!("order.to-{endpoint}")
}
