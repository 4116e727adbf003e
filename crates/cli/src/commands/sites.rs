//! `backstitch sites`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::Failure;
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session, in_file, segment};

const PATH: &str = "/v1/sites";

const LINES: [Column; 8] = [
    Column::text("state", "state"),
    Column::text("abandoned", "abandoned"),
    Column::text("attempt", "attempt"),
    Column::text("correlation id", "correlation_id"),
    Column::text("error kind", "error_kind"),
    Column::text("error", "last_error"),
    Column::time("created", "created_at"),
    Column::time("updated", "updated_at"),
];

/// Provisioned sites.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  backstitch sites start site-1 --input site.json\n  \
    backstitch sites show site-1\n  backstitch lifecycles log site-provisioning site-1")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Start a site, or start it again.
    #[command(
        after_help = "Example:\n  echo '{\"repository\":\"acme/docs\"}' | backstitch sites start site-1 --input -"
    )]
    Start {
        /// Id of the site.
        id: String,
        /// Correlation id; the first request's counts.
        #[arg(long, value_name = "ID")]
        correlation_id: Option<String>,
        /// Other input: a file with a JSON object; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
    /// Show a site.
    #[command(after_help = "Example:\n  backstitch sites show site-1")]
    Show {
        /// Id of the site.
        id: String,
    },
}

/// Starts and shows sites.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action {
        Action::Start { id, correlation_id, input } => {
            let mut members = input.as_deref().map(members_in).transpose()?.unwrap_or_default();
            members.insert("site_id".to_owned(), to_raw_value(&id)?);
            if let Some(id) = correlation_id {
                members.insert("correlation_id".to_owned(), to_raw_value(&id)?);
            }
            let ask = Ask::post(PATH).body("application/json", serde_json::to_vec(&members)?);
            let answer = session.ask(ask).await?;
            let of = |member: &str| plain(&answer.value[member]);
            let stays = answer.value["changed"] == false;
            let detail = if stays { format!(": {}", of("detail")) } else { String::new() };
            let verb = if stays { "stays" } else { "is" };
            session.done(&answer, &format!("site {} {verb} in {}{detail}", of("site_id"), of("state")))
        }
        Action::Show { id } => {
            let answer = session.ask(Ask::get(format!("{PATH}/{}", segment(&id)))).await?;
            session.show(&answer, &format!("Site {}", plain(&answer.value["site_id"])), &LINES)
        }
    }
}

/// The members of an object in a file, unchanged.
fn members_in(file: &Path) -> Result<BTreeMap<String, Box<RawValue>>, Failure> {
    let read = serde_json::from_slice(&in_file(file)?);
    read.map_err(|why| format!("{} is no object of JSON: {why}", file.display()).into())
}
