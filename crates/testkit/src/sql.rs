//! The named statements in the `sql/` directories of the crates, for tests that look at each of them.

use std::fs;
use std::path::{Path, PathBuf};

use backstitch::store::{SchemaName, sql};

/// A statement as a store sends it.
pub struct NamedStatement {
    /// Its file and its name: `sagas::load`.
    pub name: String,
    /// Whether the other dialect has none of this name.
    pub is_of_one_dialect: bool,
    /// The statement, of the schema `backstitch`.
    pub text: String,
}

fn directory(package: &str, dialect: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package).join("sql").join(dialect)
}

/// All statements of a crate in a dialect.
///
/// # Panics
/// When they cannot be read.
#[must_use]
pub fn statements(package: &str, dialect: &str) -> Vec<NamedStatement> {
    let directory = directory(package, dialect);
    let entries = fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.unwrap_or_else(|why| panic!("{}: {why}", directory.display()));
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.sort();
    files.iter().flat_map(|path| in_file(path)).collect()
}

/// The text of one statement.
///
/// # Panics
/// When there is none of this name.
#[must_use]
pub fn statement(package: &str, dialect: &str, name: &str) -> String {
    let found = statements(package, dialect).into_iter().find(|statement| statement.name == name);
    found.unwrap_or_else(|| panic!("{package} has no statement `{name}` for {dialect}")).text
}

fn in_file(path: &Path) -> Vec<NamedStatement> {
    let file = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let headings = file.lines().filter_map(|line| line.strip_prefix("-- name: "));
    let named = headings.map(|heading| {
        let (name, only) = heading.split_once(", ").unwrap_or((heading, ""));
        let mut text = vec![0; sql::length(&file, name)];
        sql::write(&file, name, &mut text);
        NamedStatement {
            name: format!("{stem}::{name}"),
            is_of_one_dialect: !only.is_empty(),
            text: SchemaName::default().qualify(sql::text(&text)),
        }
    });
    named.collect()
}
