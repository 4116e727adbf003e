//! The floor: a bare loop that writes the rows of the measured run again, with the same settings and group size, and
//! does nothing
//! else.

mod postgres;
mod sqlite;

use std::time::Duration;

use super::Failure;
use super::load::Measured;
use super::target::Target;

/// A longer replay adds no information.
const LONG_ENOUGH: Duration = Duration::from_secs(5);

/// An event as stored.
struct EventRow {
    seq: i32,
    at: i64,
    name: String,
    step: Option<String>,
    attempt: Option<i32>,
    data: Option<String>,
}

/// The rows of one commit of one saga.
struct CommitRows {
    events: Vec<EventRow>,
    row: Option<RowChange>,
}

/// The change of the saga's row.
enum RowChange {
    Insert,
    Update { status: &'static str, failed_step: Option<String>, owned: bool },
}

/// One saga, commit by commit.
struct SagaRows {
    id: [u8; 16],
    definition: String,
    version: i32,
    created_at: i64,
    commits: Vec<CommitRows>,
}

/// Sagas per second of the bare loop; `None` without a disk.
pub(super) async fn measure(target: &Target, measured: &Measured) -> Result<Option<f64>, Failure> {
    let group = usize::try_from(measured.commits.div_ceil(measured.transactions.max(1)))?.max(1);
    let empty = target.sibling().await?;
    let rate = match (target.address(), empty.address()) {
        (Some(from), Some(to)) if matches!(target, Target::Sqlite { .. }) => {
            tokio::task::spawn_blocking(move || sqlite::replay(&from, &to, group)).await??
        }
        (Some(from), Some(to)) => postgres::replay(&from, &to, group).await?,
        _ => return Ok(None),
    };
    empty.remove().await?;
    Ok(Some(rate))
}

/// Splits a saga's log into its commits: the events of one decision have the same time.
fn commits(events: Vec<EventRow>) -> Vec<CommitRows> {
    let mut commits: Vec<CommitRows> = Vec::new();
    for event in events {
        match commits.last_mut() {
            Some(open) if open.events.last().is_some_and(|last| last.at == event.at) => {
                open.events.push(event);
            }
            _ => commits.push(CommitRows { events: vec![event], row: None }),
        }
    }
    let mut failed_step = None;
    for commit in &mut commits {
        for event in &commit.events {
            if event.name == "saga.compensating" {
                failed_step.clone_from(&event.step);
            }
            commit.row = row_change(event, failed_step.as_ref()).or(commit.row.take());
        }
    }
    commits
}

fn row_change(event: &EventRow, failed_step: Option<&String>) -> Option<RowChange> {
    let (status, owned) = match event.name.as_str() {
        "saga.started" => return Some(RowChange::Insert),
        "saga.compensating" => ("compensating", true),
        "saga.compensated" => ("compensated", false),
        "saga.succeeded" => ("succeeded", false),
        _ => return None,
    };
    Some(RowChange::Update { status, failed_step: failed_step.cloned(), owned })
}
