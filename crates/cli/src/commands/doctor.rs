//! `backstitch doctor`

use super::Failure;
use crate::cli::status::worded;
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session};

const CHECKS: [Column; 2] = [Column::status("STATUS", "status"), Column::text("CHECK", "name")];

/// What is stuck, lagging or misconfigured?
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch doctor\n  backstitch doctor --json || notify\n\n\
    The exit code is 1 if there is any finding.")]
pub(crate) struct Args {}

/// Runs the server's doctor, and fails if it has findings.
pub(super) async fn run(_: Args, session: &Session) -> Result<(), Failure> {
    let answer = session.ask(Ask::get("/v1/doctor")).await?;
    let Some(findings) = answer.value["findings"].as_array() else {
        return Err(session.client.stranger("its diagnosis cannot be read").into());
    };
    let status = answer.value["status"].as_str().unwrap_or_default();
    let title = format!("{} {}", session.client.server, worded(status));
    session.show(&answer, &title, &[Column::time("checked", "checked_at")])?;
    session.show_part("Checks", &answer.value["checks"], &CHECKS)?;
    for finding in findings {
        let severity = finding["severity"].as_str().unwrap_or("error");
        let of = |member: &str| plain(&finding[member]);
        let subject = Some(of("subject")).filter(|subject| !subject.is_empty());
        let subject = subject.map(|subject| format!(" {subject}:")).unwrap_or_default();
        let (check, message, action) = (of("check"), of("message"), of("action"));
        session.output.line(&format!("\n{} {check}:{subject} {message}\n  → {action}", worded(severity)))?;
    }
    match findings.len() {
        0 => Ok(session.output.line("\n✓ nothing to find fault with")?),
        1 => Err("1 finding needs attention".into()),
        several => Err(format!("{several} findings need attention").into()),
    }
}
