//! The named statements: the same in both dialects, all used, and none in a form that a distributed database refuses.

use std::collections::BTreeSet;

use backstitch_testkit::sql::{NamedStatement, statements};

use crate::repository;

const PACKAGES: [&str; 3] = ["engine", "modules", "server"];

#[test]
fn both_dialects_have_the_same_statements() {
    for package in PACKAGES {
        let [sqlite, postgres] = ["sqlite", "postgres"].map(|dialect| statements(package, dialect));
        let names = |all: &[NamedStatement], only: bool| -> BTreeSet<String> {
            let chosen = all.iter().filter(|statement| statement.is_of_one_dialect == only);
            chosen.map(|statement| statement.name.clone()).collect()
        };
        let (ours, theirs) = (names(&sqlite, false), names(&postgres, false));
        let unpaired: Vec<_> = ours.symmetric_difference(&theirs).collect();
        assert!(unpaired.is_empty(), "{package}: write them in both, or say `, sqlite only`: {unpaired:?}");
        let alone: Vec<_> = names(&sqlite, true).intersection(&names(&postgres, true)).cloned().collect();
        assert!(alone.is_empty(), "{package}: both dialects have them: {alone:?}");
    }
}

#[test]
fn every_statement_is_used() {
    for package in PACKAGES {
        let sources = repository::files_under(&repository::root().join("crates").join(package).join("src"));
        let code: String = sources.iter().map(|path| repository::read(path)).collect();
        // Formatting does not matter: a macro's arguments are tokens.
        let code: String = code.chars().filter(|it| !it.is_whitespace()).collect();
        for dialect in ["sqlite", "postgres"] {
            for NamedStatement { name, .. } in statements(package, dialect) {
                let ends = [')', ',', ';'].map(|end| format!("{name}{end}"));
                assert!(ends.iter().any(|end| code.contains(end)), "{package}: nothing uses `{name}`");
            }
        }
    }
}

/// The parts of a statement that write rows which are there: each from its keyword to the end of its parentheses.
fn updates(sql: &str) -> Vec<String> {
    let code: String =
        sql.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let begins = ["update ", "delete from ", "do update"];
    let found = begins.iter().flat_map(|begin| code.match_indices(begin).map(|(at, _)| at));
    let locks = "for update ";
    let found = found
        .filter(|at| !code[..*at + "update ".len()].ends_with(locks) && !code[..*at].ends_with("no key "));
    let part = |at: usize| {
        let mut depth = 0_i32;
        let end = code[at..].char_indices().find(|(_, it)| {
            depth += i32::from(*it == '(') - i32::from(*it == ')');
            depth < 0
        });
        code[at..end.map_or(code.len(), |(end, _)| at + end)].to_owned()
    };
    found.map(part).collect()
}

/// Citus refuses functions that are not immutable there, such as the clock, or time arithmetic on columns.
#[test]
fn updates_take_the_time_as_a_value() {
    for package in PACKAGES {
        for NamedStatement { name, text, .. } in statements(package, "postgres") {
            for part in updates(&text) {
                for refused in ["clock()", "interval '"] {
                    assert!(
                        !part.contains(refused),
                        "{package}: `{name}` has {refused} in an update: select it first, \
                         `with now as materialized (select clock() as at)`"
                    );
                }
            }
        }
    }
}

#[test]
fn statements_name_no_schema_but_the_configured_one() {
    // Topics, and a mark in the log of the server.
    let allowed = [
        "'backstitch.alerts'",
        "'backstitch.'",
        "\"backstitch.\"",
        "'backstitch', ''::text",
        "'$schema' <> 'backstitch'",
    ];
    let crates = PACKAGES.map(|package| repository::root().join("crates").join(package));
    let files = crates.iter().flat_map(|path| repository::files_under(path));
    let sql = files.filter(|path| path.extension().is_some_and(|extension| extension == "sql"));
    for path in sql.filter(|path| !path.iter().any(|part| part == "sqlite")) {
        let rest = allowed.iter().fold(repository::read(&path), |text, allowed| text.replace(allowed, ""));
        let line = rest.lines().find(|line| line.contains("backstitch"));
        assert!(
            line.is_none(),
            "{}: say `$schema` or `current_schema()`: {}",
            path.display(),
            line.unwrap_or_default()
        );
    }
}
