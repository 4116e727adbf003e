//! The repository's files, for the tests that check them.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    let testkit = Path::new(env!("CARGO_MANIFEST_DIR"));
    testkit.ancestors().nth(2).unwrap_or_else(|| panic!("{} is not crates/testkit", testkit.display())).into()
}

/// All files below a directory in a stable order; none without the directory.
pub(crate) fn files_under(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| !path.ends_with("target"))
        .flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] })
        .collect()
}

/// Path and text of every Rust file of the crates and the examples.
pub(crate) fn rust_sources() -> Vec<(PathBuf, String)> {
    ["crates", "examples"]
        .iter()
        .flat_map(|directory| files_under(&root().join(directory)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let text = read(&path);
            (path, text)
        })
        .collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
