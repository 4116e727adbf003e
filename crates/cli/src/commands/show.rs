//! `backstitch show`

use super::Failure;
use crate::cli::table::Column;
use crate::cli::{Ask, Session, saga_id, segment, unknown_saga};

pub(super) const LINES: [Column; 13] = [
    Column::status("status", "status"),
    Column::made("paused", |saga| {
        if saga["paused"] == true {
            "yes: `backstitch resume` lets it go on".to_owned()
        } else {
            String::new()
        }
    }),
    Column::made("definition", |saga| super::versioned(saga, "definition", "version")),
    Column::text("correlation id", "correlation_id"),
    Column::made("attributes", |saga| {
        let attributes = saga["attributes"].as_object().into_iter().flatten();
        let written =
            attributes.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
        written.collect::<Vec<_>>().join(" ")
    }),
    Column::time("created", "created_at"),
    Column::time("updated", "updated_at"),
    Column::time("deadline", "deadline"),
    Column::text("failed step", "failed_step"),
    Column::text("error", "error.message"),
    Column::text("error kind", "error.kind"),
    Column::text("error code", "error.code"),
    Column::text("input", "input"),
];

pub(super) const STEPS: [Column; 5] = [
    Column::id("STEP", "id"),
    Column::status("STATUS", "status"),
    Column::made("ATTEMPTS", |step| {
        let undone = step["compensation_attempts"].as_u64().unwrap_or(0);
        let undone = if undone > 0 { format!(" + {undone} to undo it") } else { String::new() };
        format!("{}{undone}", step["attempts"])
    }),
    Column::made("ERROR", |step| {
        let of = |member: &str| step[member]["message"].as_str();
        of("compensation_error").or_else(|| of("error")).unwrap_or_default().to_owned()
    }),
    Column::text("RESULT", "result"),
];

/// The saga to show.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch show 01923c4e-5b6a-7000-8000-000000000001\n  \
    backstitch show 01923c4e5b --json      # the beginning of an id will do")]
pub(crate) struct Args {
    /// Id of the saga, or a unique prefix.
    id: String,
}

/// Shows the status of a saga and its steps.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let id = saga_id::whole(session, &args.id).await?;
    let answer = match session.ask(Ask::get(format!("/v1/sagas/{}", segment(&id)))).await {
        Ok(answer) => answer,
        Err(error) => return Err(unknown_saga(session, &id, error).await),
    };
    session.show(&answer, &format!("Saga {id}"), &LINES)?;
    session.show_part("Steps", &answer.value["steps"], &STEPS)
}
