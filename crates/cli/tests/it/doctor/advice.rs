//! The doctor's remedies work: every path exists, and every command is valid.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::doctor::stage::open;
use crate::support::{Place, on_both};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// All texts with remedies: the doctor's source and its documentation.
fn words() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/doctor");
    let mut text = include_str!("../../../../../docs/doctor.md").to_owned();
    let (remedies, _) = include_str!("../../../../server/src/parked.rs").split_once("#[cfg(test)]").unwrap();
    text.push_str(remedies);
    for entry in std::fs::read_dir(sources).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (told, _) = source.split_once("#[cfg(test)]").unwrap_or((&source, ""));
        text.push_str(told);
    }
    // Joins strings across lines, and completes assembled paths.
    let lines: Vec<&str> = text.lines().map(|line| line.trim().trim_end_matches('\\')).collect();
    lines.join(" ").replace("{address}", "/v1/lifecycles/{machine}/{key}")
}

/// The addresses that are named, each with its method; `None` where only the address is.
fn addresses(words: &str) -> BTreeSet<(Option<&str>, &str)> {
    let mut found = BTreeSet::new();
    for (at, _) in words.match_indices("/v1/").chain(words.match_indices("/health/")) {
        let end = |c: char| !(c.is_ascii_alphanumeric() || "/_-{}".contains(c));
        let address = words[at..].split(end).next().unwrap_or_default();
        let before = words[..at].trim_end();
        let method = METHODS.into_iter().find(|method| before.ends_with(method));
        found.insert((method, address.trim_end_matches('/')));
    }
    found
}

/// Whether a path matches a route: parameters in braces match anything.
fn fits(route: &str, address: &str) -> bool {
    let (route, address): (Vec<_>, Vec<_>) = (route.split('/').collect(), address.split('/').collect());
    let alike = |(route, part): (&&str, &&str)| route == part || route.starts_with('{');
    route.len() == address.len() && route.iter().zip(&address).all(alike)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_address_that_the_doctor_names_is_there() {
    on_both(async |place: Place| {
        let open = open(&place, &[]).await;
        let description = open.client.get("/openapi.json").await.json();
        let routes = description["paths"].as_object().unwrap();
        let words = words();
        let named = addresses(&words);
        assert!(named.len() > 10, "{named:?}");
        for (method, address) in named {
            let of_method =
                |operations: &Value| method.is_none_or(|method| !operations[method.to_lowercase()].is_null());
            let mut meant = routes.iter().filter(|(route, _)| fits(route, address));
            assert!(meant.any(|(_, operations)| of_method(operations)), "{method:?} {address}");
        }
    })
    .await;
}

#[test]
fn every_command_that_the_doctor_names_is_understood() {
    let words = words();
    let commands: BTreeSet<&str> =
        words.split('`').filter(|quoted| quoted.starts_with("backstitch ")).map(str::trim).collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        // Placeholders may be anything here; `--help` precedes missing arguments.
        let arguments = command.split_whitespace().skip(1).map(|word| match word {
            "…" | "ID" | "STEP" => "1",
            word if word.starts_with('{') => "1",
            word => word,
        });
        let mut program = Command::new(env!("CARGO_BIN_EXE_backstitch"));
        let answer = program.args(arguments).arg("--help").output().unwrap();
        assert!(answer.status.success(), "`{command}`: {}", String::from_utf8_lossy(&answer.stderr));
    }
}
