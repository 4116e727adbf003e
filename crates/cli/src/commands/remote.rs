//! The commands that call a server.

use super::operate::{self, Operation};
use super::{
    Failure, alerts, audit, dead_letters, definitions, doctor, follow, health, lifecycles, log, orders,
    outbox, parked, ps, resolve, show, sites, start, webhooks,
};
use crate::cli::{Session, Target, client};

/// A command with its server.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoteArgs<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    target: Target,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Remote {
    /// Start a saga.
    Start(RemoteArgs<start::Args>),
    /// List sagas, newest first.
    Ps(RemoteArgs<ps::Args>),
    /// Show the status of a saga and its steps.
    Show(RemoteArgs<show::Args>),
    /// Show the events of a saga.
    Log(RemoteArgs<log::Args>),
    /// Show the events of a saga live until its end.
    Follow(RemoteArgs<follow::Args>),
    /// Roll a saga back.
    #[command(
        after_help = "Example:\n  backstitch cancel 01923c4e-5b6a-7000-8000-000000000001 --note 'ordered twice'"
    )]
    Cancel(RemoteArgs<operate::Args>),
    /// Pause a saga: it starts no new attempts.
    #[command(
        after_help = "Example:\n  backstitch pause 01923c4e-5b6a-7000-8000-000000000001 --note 'the bank is down'"
    )]
    Pause(RemoteArgs<operate::Args>),
    /// Resume a paused saga.
    #[command(after_help = "Example:\n  backstitch resume 01923c4e-5b6a-7000-8000-000000000001")]
    Resume(RemoteArgs<operate::Args>),
    /// Resolve a failed rollback: retry, skip or done.
    Resolve(RemoteArgs<resolve::Args>),
    /// Orders: confirm, show, and change their settings.
    Orders(RemoteArgs<orders::Args>),
    /// Sites: start, show.
    Sites(RemoteArgs<sites::Args>),
    /// Declare sagas: list, show, put, apply, discard.
    Definitions(RemoteArgs<definitions::Args>),
    /// State machines and their instances.
    Lifecycles(RemoteArgs<lifecycles::Args>),
    /// Webhooks: subscriptions, events, deliveries.
    Webhooks(RemoteArgs<webhooks::Args>),
    /// Dead letters of webhooks: list, show, requeue.
    DeadLetters(RemoteArgs<dead_letters::Args>),
    /// Messages: list, show, publish, retry.
    Outbox(RemoteArgs<outbox::Args>),
    /// Items that the database rejected: list, retry, remove a conflict.
    Parked(RemoteArgs<parked::Args>),
    /// Alerts and their notifications: list, acknowledge.
    Alerts(RemoteArgs<alerts::Args>),
    /// List requested changes.
    Audit(RemoteArgs<audit::Args>),
    /// What is active, stuck or failed?
    Health(RemoteArgs<health::Args>),
    /// Is anything stuck, lagging or misconfigured?
    Doctor(RemoteArgs<doctor::Args>),
}

impl Remote {
    /// Runs the command.
    ///
    /// # Errors
    /// When the request fails, or the result is a failure.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Start(asked) => asked.run(start::run).await,
            Self::Ps(asked) => asked.run(ps::run).await,
            Self::Show(asked) => asked.run(show::run).await,
            Self::Log(asked) => asked.run(log::run).await,
            Self::Follow(asked) => asked.run(follow::run).await,
            Self::Cancel(asked) => asked.operate(Operation::Cancel).await,
            Self::Pause(asked) => asked.operate(Operation::Pause).await,
            Self::Resume(asked) => asked.operate(Operation::Resume).await,
            Self::Resolve(asked) => asked.run(resolve::run).await,
            Self::Orders(asked) => asked.run(orders::run).await,
            Self::Sites(asked) => asked.run(sites::run).await,
            Self::Definitions(asked) => asked.run(definitions::run).await,
            Self::Lifecycles(asked) => asked.run(lifecycles::run).await,
            Self::Webhooks(asked) => asked.run(webhooks::run).await,
            Self::DeadLetters(asked) => asked.run(dead_letters::run).await,
            Self::Outbox(asked) => asked.run(outbox::run).await,
            Self::Parked(asked) => asked.run(parked::run).await,
            Self::Alerts(asked) => asked.run(alerts::run).await,
            Self::Audit(asked) => asked.run(audit::run).await,
            Self::Health(asked) => asked.run(health::run).await,
            Self::Doctor(asked) => asked.run(doctor::run).await,
        }
    }
}

impl<A: clap::Args> RemoteArgs<A> {
    async fn run(self, verb: impl AsyncFnOnce(A, &Session) -> Result<(), Failure>) -> Result<(), Failure> {
        let session = self.target.open()?;
        let done = verb(self.args, &session).await;
        // With `--json`, problems are printed unchanged.
        if let Err(why) = &done
            && session.output.json
            && let Some(refusal) = why.downcast_ref::<client::Error>().and_then(client::Error::refusal)
        {
            session.output.json(&refusal.json)?;
        }
        done
    }
}

impl RemoteArgs<operate::Args> {
    async fn operate(self, operation: Operation) -> Result<(), Failure> {
        self.run(async move |args, session: &Session| operate::run(operation, args, session).await).await
    }
}
