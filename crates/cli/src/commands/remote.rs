//! The commands that ask a server.

use super::operate::{self, Operation};
use super::{
    Failure, alerts, audit, dead_letters, definitions, doctor, follow, health, lifecycles, log, orders,
    outbox, parked, ps, resolve, show, sites, start, webhooks,
};
use crate::cli::{Session, Target, client};

/// A command that asks a server, and which one.
#[derive(Debug, clap::Args)]
pub(crate) struct Asked<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    target: Target,
}

/// What a server can be asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Remote {
    /// Start a saga.
    Start(Asked<start::Args>),
    /// List sagas, newest first.
    Ps(Asked<ps::Args>),
    /// Show where a saga and its steps stand.
    Show(Asked<show::Args>),
    /// Show what happened to a saga.
    Log(Asked<log::Args>),
    /// Show what happens to a saga until its end.
    Follow(Asked<follow::Args>),
    /// Roll a saga back.
    #[command(
        after_help = "Example:\n  backstitch cancel 01923c4e-5b6a-7000-8000-000000000001 --note 'ordered twice'"
    )]
    Cancel(Asked<operate::Args>),
    /// Let a saga start nothing new.
    #[command(
        after_help = "Example:\n  backstitch pause 01923c4e-5b6a-7000-8000-000000000001 --note 'the bank is down'"
    )]
    Pause(Asked<operate::Args>),
    /// Let a paused saga go on.
    #[command(after_help = "Example:\n  backstitch resume 01923c4e-5b6a-7000-8000-000000000001")]
    Resume(Asked<operate::Args>),
    /// Decide about a rollback that is stuck.
    Resolve(Asked<resolve::Args>),
    /// Orders: confirm, show, and how they are worked off.
    Orders(Asked<orders::Args>),
    /// Sites: ask for one, show it.
    Sites(Asked<sites::Args>),
    /// Declare sagas: list, show, put, apply, discard.
    Definitions(Asked<definitions::Args>),
    /// State machines, and what goes through them.
    Lifecycles(Asked<lifecycles::Args>),
    /// Events, and who wants to hear of them.
    Webhooks(Asked<webhooks::Args>),
    /// Webhooks that were given up: list, show, requeue.
    DeadLetters(Asked<dead_letters::Args>),
    /// Messages: list, show, publish, retry.
    Outbox(Asked<outbox::Args>),
    /// Items that the database rejected: list, retry, remove a conflict.
    Parked(Asked<parked::Args>),
    /// What needed a person, and who was told.
    Alerts(Asked<alerts::Args>),
    /// Who asked for which change.
    Audit(Asked<audit::Args>),
    /// What is active, stuck or failed?
    Health(Asked<health::Args>),
    /// Is anything stuck, lagging or misconfigured?
    Doctor(Asked<doctor::Args>),
}

impl Remote {
    /// Asks, and shows the answer.
    ///
    /// # Errors
    /// When there is no good answer, or the answer is a bad one.
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

impl<A: clap::Args> Asked<A> {
    async fn run(self, verb: impl AsyncFnOnce(A, &Session) -> Result<(), Failure>) -> Result<(), Failure> {
        let session = self.target.open()?;
        let done = verb(self.args, &session).await;
        // Programs read what is wrong as the server wrote it.
        if let Err(why) = &done
            && session.output.json
            && let Some(refusal) = why.downcast_ref::<client::Error>().and_then(client::Error::refusal)
        {
            session.output.json(&refusal.json)?;
        }
        done
    }
}

impl Asked<operate::Args> {
    async fn operate(self, operation: Operation) -> Result<(), Failure> {
        self.run(async move |args, session: &Session| operate::run(operation, args, session).await).await
    }
}
