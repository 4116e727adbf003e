//! `backstitch health`

use serde_json::{Value, json};

use super::{Failure, ps};
use crate::cli::status::worded;
use crate::cli::table::Column;
use crate::cli::{Ask, Session};

const LINES: [Column; 7] = [
    Column::text("failed rollbacks", "failed"),
    Column::text("active sagas here", "under_way"),
    Column::text("stuck lifecycles", "lifecycles.stuck"),
    Column::text("oldest message, s", "oldest_outbox_seconds"),
    Column::text("oldest webhook, s", "oldest_delivery_seconds"),
    Column::time("removed what is old", "retention.last_run"),
    Column::text("removal is held up", "retention.held_up"),
];

const ACTIVE: [Column; 2] = [Column::status("STATUS", "status"), Column::text("SAGAS", "sagas")];

const UNREGISTERED: [Column; 3] = [
    Column::text("DEFINITION", "definition"),
    Column::text("VERSION", "version"),
    Column::text("SAGAS", "sagas"),
];

const WAITING: [Column; 3] =
    [Column::text("QUEUE", "queue"), Column::text("JOB", "job_id"), Column::text("SECONDS", "seconds")];

const FULL: [Column; 7] = [
    Column::text("SCOPE", "scope"),
    Column::text("HOST", "host"),
    Column::text("DEFINITION", "definition"),
    Column::text("STEP", "step"),
    Column::text("HELD BY", "held_by"),
    Column::text("WAITING", "waiting"),
    Column::text("SECONDS", "seconds"),
];

/// What is active, stuck or failed?
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch health\n  backstitch health --stuck-after 1h --json\n\n\
    The exit code is 1 if anything needs attention; `backstitch doctor` says what to do about it.")]
pub(crate) struct Args {
    /// How long a saga may be active with nothing due, and a message may wait; by default the server's
    /// `doctor.stuck_after`.
    #[arg(long, value_name = "TIME")]
    stuck_after: Option<String>,
}

/// Shows the health of sagas, lifecycles and messages, and fails if any needs attention.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let query: Vec<_> = args.stuck_after.into_iter().map(|time| ("stuck_after", time)).collect();
    let answer = session.ask(Ask::get("/v1/health").query(&query)).await?;
    let Some(status) = answer.value["status"].as_str() else {
        return Err(session.client.stranger("its health cannot be read").into());
    };
    let title = format!("{} {}", session.client.server, worded(status));
    session.show(&answer, &title, &LINES)?;
    let active = answer.value["active"].as_object().into_iter().flatten();
    let active: Value = active.map(|(status, sagas)| json!({ "status": status, "sagas": sagas })).collect();
    session.show_part("Sagas", &active, &ACTIVE)?;
    session.show_part("Stuck", &answer.value["stuck"], &ps::COLUMNS)?;
    session.show_part("Waiting for a definition", &answer.value["unregistered"], &UNREGISTERED)?;
    session.show_part("Waiting for a worker", &answer.value["waiting_for_workers"], &WAITING)?;
    session.show_part("Waiting for room", &answer.value["waiting_for_room"], &FULL)?;
    if status == "ok" {
        return Ok(());
    }
    Err("something needs attention: `backstitch doctor` says what to do".into())
}
