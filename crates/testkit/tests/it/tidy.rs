//! Style rules that neither compiler nor linter checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::repository;

const MAX_LINES: usize = 900;
/// Each crate depends on crates of earlier layers only.
const LAYERS: [&[&str]; 6] = [
    &["backstitch-kernel"],
    &["backstitch"],
    &["backstitch-api"],
    &["backstitch-modules"],
    &["backstitch-bench", "backstitch-demo", "backstitch-server"],
    &["backstitch-cli"],
];

#[test]
fn the_kernel_depends_on_nothing_that_does_io() {
    forbid_dependencies("backstitch-kernel", &["tokio", "rusqlite", "tokio-postgres"]);
    let manifests = manifests();
    let uuid = shipped_dependencies(package(&manifests, "backstitch-kernel")).find(|it| it["name"] == "uuid");
    let features = uuid.map(|uuid| uuid["features"].clone()).unwrap_or_default();
    let random = features.as_array().into_iter().flatten().find(|it| **it == "v4" || **it == "v7");
    assert_eq!(
        random, None,
        "the kernel's `uuid` has a feature that makes ids: take ids as arguments, the engine makes them"
    );
}

#[test]
fn the_kernel_never_names_a_file_a_socket_or_a_clock() {
    let kernel = repository::root().join("crates/kernel/src");
    let mut found = Vec::new();
    for (path, source) in repository::rust_sources() {
        if path.starts_with(&kernel) {
            let names = impure_names(&source);
            found.extend(names.into_iter().map(|name| format!("{}: {name}", shown(&path))));
        }
    }
    assert_none(&found, "the kernel is pure: move I/O to the engine and take the time as an argument");
}

#[test]
fn impure_names_are_found_in_code_and_not_in_comments() {
    assert_eq!(impure_names("use std::fs::File;"), ["std::fs"]);
    assert_eq!(impure_names("use std::{fmt, net::TcpStream};"), ["std::net"]);
    assert_eq!(impure_names("fn f(at: Instant) {}"), ["Instant"]);
    assert!(impure_names("// No Instant here.\nstruct Instantly;").is_empty());
}

#[test]
fn dependencies_point_one_way() {
    for (layer, crates) in LAYERS.iter().enumerate() {
        let above: Vec<&str> = LAYERS[layer + 1..].iter().flat_map(|crates| crates.iter().copied()).collect();
        for name in *crates {
            let beside = crates.iter().filter(|other| *other != name).copied();
            let forbidden: Vec<&str> =
                above.iter().copied().chain(beside).chain(["backstitch-testkit"]).collect();
            forbid_dependencies(name, &forbidden);
        }
    }
}

#[test]
fn every_crate_has_a_layer() {
    let layered: BTreeSet<&str> = LAYERS.iter().flat_map(|crates| crates.iter().copied()).collect();
    for package in manifests() {
        let name = package["name"].as_str().unwrap_or_default();
        assert!(
            name == "backstitch-testkit" || layered.contains(name),
            "add `{name}` to a layer of this test"
        );
    }
}

#[test]
fn routes_and_command_lines_stay_in_their_crates() {
    for (dependency, users) in [
        ("axum", &["backstitch-demo", "backstitch-server"][..]),
        ("clap", &["backstitch-bench", "backstitch-cli"][..]),
    ] {
        for package in manifests() {
            let name = package["name"].as_str().unwrap_or_default();
            if !users.contains(&name) {
                forbid_dependencies(name, &[dependency]);
            }
        }
    }
}

#[test]
fn only_the_engine_accesses_the_tables_of_jobs() {
    let crates = repository::root().join("crates");
    let accesses = [
        "from jobs",
        "into jobs",
        "update jobs",
        "update or fail jobs",
        "join jobs",
        "job_results",
        "jobs_id_seq",
    ];
    let mut found = Vec::new();
    for folder in ["modules/src", "modules/queries", "modules/sql", "server/src", "server/sql"] {
        for path in repository::files_under(&crates.join(folder)) {
            let source = fs::read_to_string(&path).unwrap_or_default();
            let named = accesses.iter().filter(|access| source.contains(*access));
            found.extend(named.map(|access| format!("{}: {access}", shown(&path))));
        }
    }
    assert_none(&found, "call the operations of `backstitch::jobs`, or extend its statements");
}

/// Databases record migrations by number, so a number is never reused.
#[test]
fn a_migration_that_was_published_never_changes() {
    let lock = repository::read(&repository::root().join("crates/testkit/tests/published_migrations.sha256"));
    let published: BTreeSet<&str> = lock.lines().collect();
    let migrations = repository::files_under(&repository::root().join("crates"));
    let found: BTreeSet<String> = migrations
        .iter()
        .filter(|path| {
            path.iter().any(|part| part == "migrations") && path.extension().is_some_and(|it| it == "sql")
        })
        .map(|path| format!("{}  {}", checksum(&repository::read(path)), shown(path)))
        .collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let changed: Vec<String> = published.difference(&found).map(ToString::to_string).collect();
    assert_none(
        &changed,
        "these are not as they were published: put them back and add a migration that changes what they made",
    );
    let new: Vec<String> = found.difference(&published).map(ToString::to_string).collect();
    assert_none(&new, "these are new: add their lines to crates/testkit/tests/published_migrations.sha256");
}

#[test]
fn both_sql_dialects_have_the_same_files() {
    for directory in [
        "crates/engine/migrations",
        "crates/engine/queries",
        "crates/engine/sql",
        "crates/modules/migrations",
        "crates/modules/queries",
        "crates/modules/sql",
        "crates/server/migrations",
        "crates/server/sql",
    ] {
        let path = repository::root().join(directory);
        let [sqlite, postgres] = ["sqlite", "postgres"].map(|dialect| names_under(&path.join(dialect)));
        let unpaired: Vec<_> = sqlite.symmetric_difference(&postgres).collect();
        assert!(
            unpaired.is_empty(),
            "{directory}: a dialect lacks a file; write it under the same name: {unpaired:?}"
        );
    }
}

#[test]
fn no_source_file_is_too_long_to_read() {
    let sources = repository::files_under(&repository::root().join("crates"));
    let long: Vec<_> = sources
        .iter()
        .filter(|path| path.components().any(|component| component.as_os_str() == "src"))
        .map(|path| (path, line_count(path)))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{}: {lines} lines", shown(path)))
        .collect();
    assert_none(&long, &format!("over {MAX_LINES} lines: split the file by its reasons to exist"));
}

/// The crates whose tests already have short names.
const SHORT_TEST_NAMES: [&str; 5] = ["bench", "cli", "demo", "kernel", "testkit"];
const MAX_TEST_NAME: usize = 60;

#[test]
fn test_names_have_at_most_60_characters() {
    let crates = repository::root().join("crates");
    let mut long = Vec::new();
    for (path, source) in repository::rust_sources() {
        if SHORT_TEST_NAMES.iter().any(|name| path.starts_with(crates.join(name))) {
            let names = test_names(&source).filter(|name| name.len() > MAX_TEST_NAME);
            long.extend(names.map(|name| format!("{}: {name}", shown(&path))));
        }
    }
    assert_none(&long, "a test name is a short claim");
}

#[test]
fn test_names_are_found_behind_their_attribute() {
    let source = ["#[", "test]\nfn one() {}\n#[", "tokio::test]\nasync fn two() {}\nfn helper() {}"].concat();
    assert_eq!(test_names(&source).collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn nothing_is_left_undone_or_ignored() {
    // Concatenated, so that this file does not match itself.
    let needles = [["todo", "!("], ["unimplemented", "!("], ["#[", "ignore"]].map(|parts| parts.concat());
    let mut found = Vec::new();
    for (path, source) in repository::rust_sources() {
        for (index, line) in source.lines().enumerate() {
            if needles.iter().any(|needle| line.contains(needle)) {
                found.push(format!("{}:{}: {}", shown(&path), index + 1, line.trim()));
            }
        }
    }
    assert_none(&found, "finish the code, or make the test run");
}

/// The manifests as cargo resolves them.
fn manifests() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(repository::root())
        .output()
        .unwrap_or_else(|error| panic!("cannot run cargo metadata: {error}"));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("cargo metadata: {error}\n{}", String::from_utf8_lossy(&output.stderr))
    });
    metadata["packages"].as_array().cloned().unwrap_or_default()
}

/// The name of the first function after each attribute of a test.
fn test_names(source: &str) -> impl Iterator<Item = &str> {
    ["#[test]", "#[tokio::test"]
        .into_iter()
        .flat_map(move |attribute| source.split(attribute).skip(1))
        .filter_map(|rest| rest.split_once("fn ")?.1.split_once('('))
        .map(|(name, _)| name)
}

fn package<'a>(manifests: &'a [Value], name: &str) -> &'a Value {
    let package = manifests.iter().find(|package| package["name"] == name);
    package.unwrap_or_else(|| panic!("the workspace has no package `{name}`: tell this test its new name"))
}

/// Development dependencies are not shipped, so they are not restricted.
fn shipped_dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().into_iter().flatten().filter(|dependency| dependency["kind"] != "dev")
}

fn forbid_dependencies(name: &str, forbidden: &[&str]) {
    let manifests = manifests();
    let found: Vec<_> = shipped_dependencies(package(&manifests, name))
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|dependency| forbidden.contains(dependency))
        .collect();
    assert!(
        found.is_empty(),
        "`{name}` must not depend on {found:?}: move the code that needs them, or change the layers in this test"
    );
}

fn impure_names(source: &str) -> Vec<&'static str> {
    let code: String =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let grouped: BTreeSet<String> = code
        .split("std::{")
        .skip(1)
        .flat_map(|group| words(group.split(';').next().unwrap_or_default()))
        .collect();
    let all = words(&code);
    let mut found = Vec::new();
    for (path, module) in [("std::fs", "fs"), ("std::net", "net")] {
        if code.contains(path) || grouped.contains(module) {
            found.push(path);
        }
    }
    found.extend(["SystemTime", "Instant"].into_iter().filter(|name| all.contains(*name)));
    found
}

/// Lossy, because not every file is text.
fn line_count(path: &Path) -> usize {
    let content = fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    String::from_utf8_lossy(&content).lines().count()
}

fn names_under(directory: &Path) -> BTreeSet<String> {
    let files = repository::files_under(directory);
    files
        .iter()
        .filter_map(|file| file.strip_prefix(directory).ok())
        .map(|it| it.display().to_string())
        .collect()
}

fn checksum(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository::root()).unwrap_or(path).display().to_string()
}

fn assert_none(found: &[String], advice: &str) {
    assert!(found.is_empty(), "{advice}:\n  {}", found.join("\n  "));
}
