//! `backstitch cancel`, `pause` and `resume`.

use super::Failure;
use crate::cli::table::plain;
use crate::cli::{Ask, Session, saga_id, segment, unknown_saga};

/// The saga and a note.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the saga, or a unique prefix.
    id: String,
    /// Note; the saga's log shows it after the name of the key.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// The operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Cancel,
    Pause,
    Resume,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    fn promise(self) -> &'static str {
        match self {
            Self::Cancel => "is rolled back",
            Self::Pause => "starts nothing new until it is resumed",
            Self::Resume => "continues",
        }
    }
}

/// Sends the request. It is durable when the response arrives.
pub(super) async fn run(operation: Operation, args: Args, session: &Session) -> Result<(), Failure> {
    let id = saga_id::whole(session, &args.id).await?;
    let ask = Ask::post(format!("/v1/sagas/{}/{}", segment(&id), operation.word()));
    let note = args.note.map(|note| serde_json::json!({ "note": note }));
    let ask = note.iter().fold(ask, Ask::json);
    let answer = match session.ask(ask).await {
        Ok(answer) => answer,
        Err(error) => return Err(unknown_saga(session, &id, error).await),
    };
    let was = plain(&answer.value["status"]);
    session.done(&answer, &format!("accepted: saga {id}, which was {was}, {}", operation.promise()))
}
