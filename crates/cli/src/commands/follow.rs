//! `backstitch follow`

use super::Failure;
use crate::cli::follow::{Patience, follow};
use crate::cli::{Session, saga_id};

/// The saga to follow.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch follow 01923c4e-5b6a-7000-8000-000000000001\n  \
    backstitch follow 01923c4e-5b6a-7000-8000-000000000001 --json --after 12 --patience 10m\n\n\
    The exit code is 0 if the saga succeeded, and 1 if it was rolled back or could not be.\n\
    Ctrl-C ends the command and leaves the saga alone.")]
pub(crate) struct Args {
    /// Id of the saga, or a unique prefix.
    id: String,
    /// Only events after this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0, hide_default_value = true)]
    after: u64,
    #[command(flatten)]
    patience: Patience,
}

/// Shows a saga's events until its end.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let id = saga_id::whole(session, &args.id).await?;
    follow(session, &id, args.after, args.patience.patience).await
}
