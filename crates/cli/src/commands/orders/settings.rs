//! `backstitch orders services` and `backstitch orders timeouts`

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::table::{Column, plain};
use crate::cli::{ApiResponse, Ask, Session};
use crate::commands::{Failure, json_in};

const SERVICES: [Column; 4] = [
    Column::id("SERVICE", "service"),
    Column::text("URL", "set.url"),
    Column::text("ROLLBACK URL", "set.rollback_url"),
    Column::text("RETRIES", "set.retry.count"),
];

const TIMEOUTS: [Column; 2] = [Column::id("SERVICE", "service"), Column::text("TIMEOUT", "set")];

/// The kind of settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Services,
    Timeouts,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::Services => "/v1/admin/config/services",
            Self::Timeouts => "/v1/admin/config/timeouts",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Services => "Services",
            Self::Timeouts => "Timeouts",
        }
    }

    fn columns(self) -> &'static [Column] {
        match self {
            Self::Services => &SERVICES,
            Self::Timeouts => &TIMEOUTS,
        }
    }

    /// The settings of each service, in the order of their calls.
    fn rows(self, settings: &Value) -> Value {
        let row = |service: &str, set: &Value| json!({ "service": service, "set": set });
        match self {
            Self::Services => {
                let order = settings["order"].as_array().into_iter().flatten().filter_map(Value::as_str);
                order.map(|service| row(service, &settings["endpoints"][service])).collect()
            }
            Self::Timeouts => {
                let all = settings.as_object().into_iter().flatten();
                all.map(|(service, set)| row(service, set)).collect()
            }
        }
    }
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Show the active and the staged settings.
    #[command(after_help = "Examples:\n  backstitch orders services show\n  backstitch orders timeouts show")]
    Show,
    /// Stage a change; other settings stay.
    #[command(after_help = "Examples:\n  \
        echo '{\"order\":[\"inventory\",\"payment\",\"logistics\"]}' | backstitch orders services stage -\n  \
        echo '{\"endpoints\":{\"payment\":{\"retry\":3}}}' | backstitch orders services stage -\n  \
        backstitch orders timeouts stage timeouts.json")]
    Stage {
        /// The change: a JSON file; `-` is standard input.
        file: PathBuf,
    },
    /// Apply the staged change to new orders. Running orders keep their settings.
    #[command(after_help = "Examples:\n  backstitch orders services apply\n  \
        backstitch orders timeouts apply --revision 9f86d081884c7d65")]
    Apply(Meant),
    /// Discard the staged change.
    #[command(after_help = "Examples:\n  backstitch orders services discard\n  \
        backstitch orders timeouts discard --revision 9f86d081884c7d65")]
    Discard(Meant),
}

#[derive(Debug, clap::Args)]
pub(super) struct Meant {
    /// The expected revision, as in `show`; by default whichever is staged.
    #[arg(long)]
    revision: Option<String>,
}

impl Meant {
    fn query(self) -> Vec<(&'static str, String)> {
        self.revision.map(|revision| ("revision", revision)).into_iter().collect()
    }
}

/// Shows, stages, applies or discards settings.
pub(super) async fn run(kind: Kind, action: Action, session: &Session) -> Result<(), Failure> {
    let path = kind.path();
    let ask = match action {
        Action::Show => Ask::get(path),
        Action::Stage { file } => Ask::put(path).body("application/json", json_in(&file)?.get().to_owned()),
        Action::Apply(meant) => Ask::post(format!("{path}/apply")).query(&meant.query()),
        Action::Discard(meant) => Ask::delete(format!("{path}/staged")).query(&meant.query()),
    };
    show(kind, session, &session.ask(ask).await?)
}

fn show(kind: Kind, session: &Session, answer: &ApiResponse) -> Result<(), Failure> {
    let version = plain(&answer.value["version"]);
    let version = if version.is_empty() { version } else { format!(" of version {version}") };
    session.show(answer, &format!("{}{version}", kind.title()), &[])?;
    session.show_part("Active", &kind.rows(&answer.value["active"]), kind.columns())?;
    let revision = plain(&answer.value["revision"]);
    session.show_part(
        &format!("Staged as revision {revision}"),
        &kind.rows(&answer.value["staged"]),
        kind.columns(),
    )
}
