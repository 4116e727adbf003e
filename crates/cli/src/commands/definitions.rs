//! `backstitch definitions`

use std::path::PathBuf;

use backstitch_modules::declaration::Kind;

use super::Failure;
use super::declared::{self, Document};
use crate::cli::listing::{Listing, Paging, list};
use crate::cli::table::{Column, plain};
use crate::cli::{Ask, Session, segment, unknown_definition};

pub(super) const PATH: &str = "/v1/definitions";

const COLUMNS: [Column; 4] = [
    Column::id("NAME", "name"),
    Column::text("ACTIVE", "active"),
    Column::text("STAGED", "staged"),
    Column::made("VERSIONS", |definition| {
        definition["versions"].as_array().map(|versions| versions.len().to_string()).unwrap_or_default()
    }),
];

const LINES: [Column; 4] = [
    Column::text("active", "active"),
    Column::text("staged", "staged"),
    Column::text("definition", "definition"),
    Column::text("staged definition", "staged_definition"),
];

const VERSIONS: [Column; 2] = [Column::id("VERSION", "version"), Column::time("CREATED", "created_at")];
const IN_FLIGHT: [Column; 2] = [Column::id("VERSION", "version"), Column::text("SAGAS", "sagas")];

/// Declared sagas.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  backstitch definitions put order.yaml --apply\n  backstitch definitions show order"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List definitions by name.
    #[command(after_help = "Example:\n  backstitch definitions list")]
    List(Paging),
    /// Show the active and the staged version and their differences.
    #[command(after_help = "Example:\n  backstitch definitions show order --version 2")]
    Show {
        /// Name of the definition.
        name: String,
        /// Show this version.
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Stage a definition as the next version of its name.
    #[command(after_help = "Examples:\n  backstitch definitions put order.yaml\n  \
        backstitch definitions put order.yaml --apply")]
    Put {
        /// The definition: JSON if its name ends in .json, otherwise YAML; `-` is standard input.
        file: PathBuf,
        /// Apply it at once.
        #[arg(long)]
        apply: bool,
    },
    /// Apply the staged version to new sagas.
    #[command(after_help = "Example:\n  backstitch definitions apply order --version 3")]
    Apply {
        /// Name of the definition.
        name: String,
        /// The expected version; by default whichever is staged.
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
    /// Discard the staged version.
    #[command(after_help = "Example:\n  backstitch definitions discard order --version 3")]
    Discard {
        /// Name of the definition.
        name: String,
        /// The expected version; by default whichever is staged.
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
}

/// Lists, shows, stages, applies or discards definitions.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Failure> {
    match args.action {
        Action::List(paging) => {
            let nothing = "nothing is declared: `backstitch definitions put FILE --apply`";
            let listing = Listing { path: PATH, query: Vec::new(), columns: &COLUMNS, nothing };
            list(session, listing, paging).await
        }
        Action::Show { name, version } => show(session, &name, version).await,
        Action::Put { file, apply } => {
            let document = Document::read(&file, Kind::Saga)?;
            declared::put(session, PATH, &document, apply).await
        }
        Action::Apply { name, version } => {
            let done = declared::apply(session, PATH, &name, version).await;
            with_the_nearest(session, &name, done).await
        }
        Action::Discard { name, version } => {
            let done = declared::discard(session, PATH, &name, version).await;
            with_the_nearest(session, &name, done).await
        }
    }
}

/// Adds similar names to the error for an unknown name.
async fn with_the_nearest(session: &Session, name: &str, done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Ok(()) => Ok(()),
        Err(why) => Err(unknown_definition(session, name, why).await),
    }
}

async fn show(session: &Session, name: &str, version: Option<u32>) -> Result<(), Failure> {
    let version: Vec<_> = version.iter().map(|version| ("version", version.to_string())).collect();
    let ask = Ask::get(format!("{PATH}/{}", segment(name))).query(&version);
    let answer = match session.ask(ask).await {
        Ok(answer) => answer,
        Err(error) => return Err(unknown_definition(session, name, error).await),
    };
    session.show(&answer, &format!("Definition {}", plain(&answer.value["name"])), &LINES)?;
    session.show_part("Versions", &answer.value["versions"], &VERSIONS)?;
    session.show_part("Active sagas", &answer.value["in_flight"], &IN_FLIGHT)
}
