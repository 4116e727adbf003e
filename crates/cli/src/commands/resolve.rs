//! `backstitch resolve`

use super::Failure;
use crate::cli::{Ask, Session, saga_id, segment, unknown_saga};

/// An operator's resolution of a failed rollback.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    backstitch resolve 01923c4e-5b6a-7000-8000-000000000001 payment retry --note 'the bank is back'\n  \
    backstitch resolve 01923c4e-5b6a-7000-8000-000000000001 payment done --note 'refunded by hand'")]
pub(crate) struct Args {
    /// Id of the saga, or a unique prefix.
    id: String,
    /// The step that could not be undone.
    step: String,
    /// The resolution.
    #[arg(value_enum)]
    action: Action,
    /// Note on what was done and why; the saga's log shows it after the name of the key.
    #[arg(long, value_name = "TEXT", required = true)]
    note: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Action {
    /// Retry the compensation.
    Retry,
    /// Leave the step as it is.
    Skip,
    /// The step was undone by hand.
    Done,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Done => "done",
        }
    }
}

/// Resolves a failed compensation. The rollback then continues.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let id = saga_id::whole(session, &args.id).await?;
    let path = format!("/v1/sagas/{}/steps/{}/resolve", segment(&id), segment(&args.step));
    let body = serde_json::json!({ "action": args.action.word(), "note": args.note });
    let answer = match session.ask(Ask::post(path).json(&body)).await {
        Ok(answer) => answer,
        Err(error) => return Err(unknown_saga(session, &id, error).await),
    };
    session.done(
        &answer,
        &format!("accepted: saga {id} continues its rollback; `backstitch follow {id}` shows it"),
    )
}
