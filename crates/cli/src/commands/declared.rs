//! Definitions and machines as files: put, apply and discard.

use std::path::Path;

use backstitch::Problems;
use backstitch_modules::declaration::{Declaration, Format, Kind};
use backstitch_modules::lifecycles::declaration as machine;

use super::Failure;
use crate::cli::table::plain;
use crate::cli::text::shown;
use crate::cli::{Ask, Session, in_file, segment};

/// A declaration in a file.
pub(super) struct Document {
    name: String,
    bytes: Vec<u8>,
    format: Format,
}

/// JSON by the file's name, otherwise YAML.
pub(super) fn format_of(file: &Path) -> Format {
    let is_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json { Format::Json } else { Format::Yaml }
}

impl Document {
    /// Reads the name of the document. The server validates the rest.
    pub(super) fn read(file: &Path, wanted: Kind) -> Result<Self, Failure> {
        let (bytes, format) = (in_file(file)?, format_of(file));
        let mistaken = |Problems(problems): Problems| -> Failure {
            let lines = problems.iter().map(|problem| format!("\n  {}", super::on_one_line(problem)));
            format!("{} has mistakes{}", file.display(), lines.collect::<String>()).into()
        };
        let name = match (Kind::of(&bytes, format).map_err(mistaken)?, wanted) {
            (Some(Kind::Lifecycle), Kind::Saga) => {
                return Err(format!("{} is a lifecycle: `backstitch lifecycles put`", file.display()).into());
            }
            (Some(Kind::Saga), Kind::Lifecycle) => {
                return Err(format!("{} is a saga: `backstitch definitions put`", file.display()).into());
            }
            (_, Kind::Saga) => Declaration::read(&bytes, format).map_err(mistaken)?.name,
            (_, Kind::Lifecycle) => machine::read(&bytes, format).map_err(mistaken)?.name,
        };
        Ok(Self { name, bytes, format })
    }

    fn content_type(&self) -> &'static str {
        match self.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        }
    }
}

/// Stages it, or applies it at once.
pub(super) async fn put(
    session: &Session,
    path: &str,
    document: &Document,
    apply: bool,
) -> Result<(), Failure> {
    let query: &[(&str, &str)] = if apply { &[("apply", "true")] } else { &[] };
    let ask = Ask::put(format!("{path}/{}", segment(&document.name))).query(query);
    let answer = session.ask(ask.body(document.content_type(), document.bytes.clone())).await?;
    let (version, standing) = (plain(&answer.value["version"]), plain(&answer.value["standing"]));
    session.done(&answer, &format!("{} version {version} is {standing}", shown(&document.name)))
}

/// Applies the staged version.
pub(super) async fn apply(
    session: &Session,
    path: &str,
    name: &str,
    version: Option<u32>,
) -> Result<(), Failure> {
    let ask = Ask::post(format!("{path}/{}/apply", segment(name))).query(&meant(version));
    let answer = session.ask(ask).await?;
    let version = plain(&answer.value["version"]);
    session.done(&answer, &format!("{} version {version} is active", shown(name)))
}

/// Discards the staged version.
pub(super) async fn discard(
    session: &Session,
    path: &str,
    name: &str,
    version: Option<u32>,
) -> Result<(), Failure> {
    let ask = Ask::delete(format!("{path}/{}/staged", segment(name))).query(&meant(version));
    let answer = session.ask(ask).await?;
    let version = plain(&answer.value["discarded"]);
    session.done(&answer, &format!("{} version {version} is discarded", shown(name)))
}

/// The expected version as a query parameter, if given.
fn meant(version: Option<u32>) -> Vec<(&'static str, String)> {
    version.iter().map(|version| ("version", version.to_string())).collect()
}
