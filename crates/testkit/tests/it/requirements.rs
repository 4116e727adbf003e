//! Checks that the tests named in `docs/requirements.md` exist, and that they ran and passed in a full run (`./test`).

use std::collections::BTreeSet;
use std::env;

use crate::repository;

/// The log of a full test run. A relative path starts at the repository's root.
const LOG_VARIABLE: &str = "BACKSTITCH_TEST_LOG";

#[test]
fn every_test_named_in_the_requirements_exists() {
    let functions: BTreeSet<String> =
        repository::rust_sources().iter().flat_map(|(_, source)| function_names(source)).collect();
    let missing: Vec<_> =
        named_tests().into_iter().filter(|test| !functions.contains(test.function())).collect();
    assert!(
        missing.is_empty(),
        "docs/requirements.md names tests that do not exist; correct the name or write the test:\n{}",
        lines(&missing)
    );
}

#[test]
fn every_test_named_in_the_requirements_passed_in_the_full_run() {
    let tests = named_tests();
    // Without a log there is nothing to compare: `./test` runs this again with one.
    let Some(log) = env::var_os(LOG_VARIABLE) else {
        return;
    };
    let passed = passed_tests(&repository::read(&repository::root().join(log)));
    let missing: Vec<_> = tests.into_iter().filter(|test| !passed.contains(test.function())).collect();
    assert!(
        missing.is_empty(),
        "docs/requirements.md names tests that did not run, or did not pass, in the full run:\n{}",
        lines(&missing)
    );
}

#[test]
fn only_tables_with_shown_by_as_their_last_column_name_tests() {
    let document = "\
| Clause | Shown by |
|---|---|
| 1 `not_this` | `orders::one`, `two` and `cargo deny` |
| 2 a \\| b | `three` |

| Shown by | Clause |
|---|---|
| x | `not_that` |

```
| Clause | Shown by |
|---|---|
| 1 | `an_example` |
```
";
    let names: Vec<_> = tests_named_in(document).into_iter().map(|test| test.name).collect();
    assert_eq!(names, ["orders::one", "two", "three"]);
}

#[test]
fn only_passed_tests_of_a_log_count() {
    let log = "\
running 4 tests
test saga::tests::one ... ok
test two ... FAILED
test three ... ignored
test four - should panic ... ok
test seven ... ok <0.012s>
test eight ... FAILED <0.012s>
test crates/kernel/src/lib.rs - decide (line 3) ... ok
        PASS [   0.012s] (  7/2901) backstitch-kernel saga::tests::five
        FAIL [   0.012s] (  8/2901) backstitch-kernel saga::tests::six
";
    let passed = passed_tests(log);
    assert!(["one", "four", "five", "seven"].iter().all(|name| passed.contains(*name)), "{passed:?}");
    assert!(
        !["two", "three", "decide", "six", "eight"].iter().any(|name| passed.contains(*name)),
        "{passed:?}"
    );
}

struct NamedTest {
    line: usize,
    name: String,
}

impl NamedTest {
    fn function(&self) -> &str {
        last_segment(&self.name)
    }
}

fn named_tests() -> Vec<NamedTest> {
    let path = repository::root().join("docs/requirements.md");
    assert!(
        path.is_file(),
        "docs/requirements.md is missing: it maps each requirement to the tests that show it, in tables \
         whose last column is headed \"Shown by\""
    );
    let tests = tests_named_in(&repository::read(&path));
    assert!(
        !tests.is_empty(),
        "docs/requirements.md names no test: has a table lost its \"Shown by\" column?"
    );
    tests
}

fn tests_named_in(document: &str) -> Vec<NamedTest> {
    let mut tests = Vec::new();
    let mut in_fence = false;
    // `Some` inside a table: whether its last column names tests.
    let mut table: Option<bool> = None;
    for (index, line) in document.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence || !line.starts_with('|') {
            table = None;
            continue;
        }
        let cell = last_cell(line);
        match table {
            None => table = Some(cell == "Shown by"),
            Some(false) => {}
            Some(true) => {
                let names = cell.split('`').skip(1).step_by(2).filter(|token| is_test_name(token));
                tests.extend(names.map(|name| NamedTest { line: index + 1, name: name.to_owned() }));
            }
        }
    }
    tests
}

fn last_cell(row: &str) -> &str {
    let row = row.strip_suffix('|').unwrap_or(row);
    let start = row.rmatch_indices('|').map(|(at, _)| at).find(|at| !row[..*at].ends_with('\\'));
    row[start.map_or(0, |at| at + 1)..].trim()
}

fn is_test_name(token: &str) -> bool {
    let is_identifier = |segment: &str| {
        let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !segment.is_empty() && segment.chars().all(identifier)
    };
    token.split("::").all(is_identifier)
}

fn last_segment(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// Each `fn name(` or `fn name<` of a source file.
fn function_names(source: &str) -> Vec<String> {
    source
        .split("fn ")
        .skip(1)
        .filter_map(|rest| rest.split_once(['(', '<']))
        .map(|(name, _)| name)
        .filter(|name| is_test_name(name))
        .map(str::to_owned)
        .collect()
}

/// The last segments of the passed tests in the output of `cargo test` or `cargo nextest run`. A documentation test's
/// line starts
/// with a file's path, which is no test name.
fn passed_tests(log: &str) -> BTreeSet<String> {
    log.lines()
        .filter_map(|line| passed_by_libtest(line).or_else(|| passed_by_nextest(line)))
        .map(|path| last_segment(path).to_owned())
        .collect()
}

/// `test PATH ... ok`, followed by the duration in the output of `scripts/run_tests.py`: `<0.012s>`
fn passed_by_libtest(line: &str) -> Option<&str> {
    let (test, outcome) = line.trim().strip_prefix("test ")?.rsplit_once(" ... ")?;
    (outcome.split_whitespace().next() == Some("ok")).then(|| test.split_whitespace().next())?
}

/// `PASS [ 0.012s] ( 7/99) CRATE PATH`; `LEAK` if a child of the test kept its output open for a moment.
fn passed_by_nextest(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("PASS [").or_else(|| line.strip_prefix("LEAK ["))?.split_whitespace().next_back()
}

fn lines(tests: &[NamedTest]) -> String {
    let lines: Vec<_> = tests.iter().map(|test| format!("  line {}: `{}`", test.line, test.name)).collect();
    lines.join("\n")
}
