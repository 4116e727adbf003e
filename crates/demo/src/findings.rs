//! Differences from the expected result.

use std::fmt::Debug;

/// The differences found by a scene.
#[derive(Debug, Default)]
pub(super) struct Findings {
    mistakes: Vec<String>,
}

impl Findings {
    pub(super) fn expect<T: Copy + PartialEq + Debug>(&mut self, what: &str, seen: T, wanted: T) {
        if seen != wanted {
            self.mistakes.push(format!("{what} should be {wanted:?} and is {seen:?}"));
        }
    }

    pub(super) fn mistake(&mut self, told: impl Into<String>) {
        self.mistakes.push(told.into());
    }

    pub(super) fn into_mistakes(self) -> Vec<String> {
        self.mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_findings() {
        let mut findings = Findings::default();
        findings.expect("the outcome", "complete", "complete");
        findings.expect("the log", "U S", "U F");
        assert_eq!(findings.into_mistakes(), ["the log should be \"U F\" and is \"U S\""]);
    }
}
