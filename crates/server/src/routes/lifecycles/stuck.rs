//! Lifecycles that have been in their state for too long, for whoever asks how the server is doing.

use backstitch::SagaId;
use backstitch_modules::lifecycles::{Error, Stuck};
use serde::Serialize;

use crate::app::App;
use backstitch_api::time::{Time, rfc3339};

/// How many are listed.
const LISTED: usize = 100;

/// How lifecycles are doing.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LifecycleHealth)]
pub(in crate::routes) struct StuckLifecycles {
    /// How many have been in their state for longer than their machine allows.
    pub(in crate::routes) stuck: u64,
    /// The first hundred of them, longest first.
    items: Vec<StuckItem>,
}

/// A lifecycle that has been in its state for too long.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = StuckLifecycle)]
struct StuckItem {
    #[schema(value_type = String, format = Uuid)]
    id: SagaId,
    machine: String,
    key: String,
    state: String,
    /// How often it was started.
    attempt: u32,
    entered_at: Time,
    /// Since when it has been there for too long.
    stuck_at: Time,
}

impl From<Stuck> for StuckItem {
    fn from(Stuck { standing, since }: Stuck) -> Self {
        Self {
            id: standing.id,
            machine: standing.machine.to_string(),
            key: standing.key.to_string(),
            state: standing.instance.state.to_string(),
            attempt: standing.instance.attempt,
            entered_at: rfc3339(standing.instance.entered_at),
            stuck_at: rfc3339(since),
        }
    }
}

impl StuckLifecycles {
    pub(in crate::routes) async fn of(app: &App) -> Result<Self, Error> {
        let found = app.lifecycles.parts.stuck(LISTED).await?;
        let all = if found.len() < LISTED { 0 } else { app.lifecycles.parts.count_stuck().await? };
        // Not fewer than are listed, whatever has happened meanwhile.
        let stuck = all.max(u64::try_from(found.len()).unwrap_or(u64::MAX));
        Ok(Self { stuck, items: found.into_iter().map(StuckItem::from).collect() })
    }
}
