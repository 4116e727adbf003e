//! Shorthand for the tests.

use backstitch::Problems;
use backstitch_modules::declaration::Format;
use backstitch_modules::lifecycles::{Draft, declaration};

pub(crate) fn yaml(text: &str) -> Draft {
    declaration::read(text.as_bytes(), Format::Yaml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The mistakes, each as `place: message`.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    told(declaration::read(text.as_bytes(), Format::Yaml).unwrap_err())
}

pub(crate) fn told(Problems(found): Problems) -> Vec<String> {
    found.into_iter().map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
}

/// A machine from `a` over `b` to `c`, of which each line of these fields replaces one.
pub(crate) fn with(fields: &[&str]) -> String {
    let usual = [
        "name: letters",
        "initial: a",
        "states: [a, b, c]",
        "terminal: [c]",
        "edges: [[a, b], [b, c]]",
        "can_fail: [a, b]",
        "error_kinds: [lost]",
    ];
    let field = |line: &str| line.split(':').next().map(str::to_owned);
    let kept = usual.into_iter().filter(|line| fields.iter().all(|new| field(new) != field(line)));
    kept.chain(fields.iter().copied()).collect::<Vec<_>>().join("\n")
}
