//! `backstitch resolve`

use super::Failure;
use crate::cli::{Ask, Session, saga_id, segment, unknown_saga};

/// What was decided about a rollback that is stuck.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    backstitch resolve 01923c4e-5b6a-7000-8000-000000000001 payment retry --note 'the bank is back'\n  \
    backstitch resolve 01923c4e-5b6a-7000-8000-000000000001 payment done --note 'refunded by hand'")]
pub(crate) struct Args {
    /// The saga: its id, or the beginning of it.
    id: String,
    /// The step that could not be undone.
    step: String,
    /// What is done about it.
    #[arg(value_enum)]
    action: Action,
    /// What was done, and why; it stays in the saga's log, after the name of the key that is used.
    #[arg(long, value_name = "TEXT", required = true)]
    note: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Action {
    /// Try it again.
    Retry,
    /// Leave it undone.
    Skip,
    /// It was undone by hand.
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

/// Decides about a compensation that could not be finished. The saga then goes on rolling back.
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
        &format!("accepted: saga {id} goes on rolling back; `backstitch follow {id}` shows how"),
    )
}
