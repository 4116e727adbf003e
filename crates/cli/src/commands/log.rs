//! `backstitch log`

use super::Failure;
use crate::cli::event::LOG;
use crate::cli::{Session, listing, saga_id, segment, unknown_saga};

/// The saga's log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch log 01923c4e-5b6a-7000-8000-000000000001\n  \
    backstitch log 01923c4e-5b6a-7000-8000-000000000001 --after 12 --json | jq .type")]
pub(crate) struct Args {
    /// Id of the saga, or a unique prefix.
    id: String,
    /// Only events after this number.
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// At most this many events; by default all.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
}

/// Shows a saga's events, oldest first; with `--json` one per line.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let id = saga_id::whole(session, &args.id).await?;
    let path = format!("/v1/sagas/{}/log", segment(&id));
    match listing::log(session, &path, args.after, args.limit, &LOG).await {
        Ok(()) => Ok(()),
        Err(why) => Err(unknown_saga(session, &id, why).await),
    }
}
