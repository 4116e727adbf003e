//! Collects validation errors while a document is read.

use std::cell::{Cell, RefCell};

use backstitch::{Problem, Problems};

/// More errors than this are counted instead of listed.
const MAX_LISTED: usize = 100;

/// The errors found so far in one document.
pub struct ValidationErrors {
    /// The path of the document as a whole.
    root: &'static str,
    found: RefCell<Vec<Problem>>,
    unlisted: Cell<usize>,
}

impl ValidationErrors {
    /// No errors yet. An error of the whole document has `root` as its path.
    #[must_use]
    pub fn of(root: &'static str) -> Self {
        Self { root, found: RefCell::default(), unlisted: Cell::default() }
    }

    pub(super) fn root(&self) -> &'static str {
        self.root
    }

    /// Adds an error.
    pub fn add(&self, path: impl Into<String>, message: impl Into<String>) {
        let mut found = self.found.borrow_mut();
        if found.len() < MAX_LISTED {
            found.push(Problem { place: path.into(), message: message.into() });
        } else {
            self.unlisted.set(self.unlisted.get() + 1);
        }
    }

    /// Adds the errors of another check, except those that follow from an error at the same path or around it.
    pub fn add_unless_known(&self, Problems(more): Problems) {
        let known: Vec<String> = self.found.borrow().iter().map(|problem| problem.place.clone()).collect();
        let more = more.into_iter().filter(|new| !known.iter().any(|path| is_within(&new.place, path)));
        for problem in more {
            self.add(problem.place, problem.message);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Whether there is an error at this path or below it.
    pub fn are_within(&self, path: &str) -> bool {
        self.found.borrow().iter().any(|problem| is_within(&problem.place, path))
    }

    /// This value if there are no errors.
    ///
    /// # Errors
    /// All errors otherwise.
    pub fn or_else<T>(self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self.into_problems()),
        }
    }

    /// All errors; when there are very many, the first ones and how many follow.
    #[must_use]
    pub fn into_problems(self) -> Problems {
        let mut found = self.found.into_inner();
        let unlisted = self.unlisted.get();
        if unlisted > 0 {
            let message = format!("has {unlisted} more; correct these first");
            found.push(Problem { place: "the rest".to_owned(), message });
        }
        Problems(found)
    }
}

fn is_within(path: &str, around: &str) -> bool {
    path.strip_prefix(around).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(path: &str) -> Problem {
        Problem { place: path.to_owned(), message: "is wrong".to_owned() }
    }

    #[test]
    fn errors_that_follow_from_known_ones_are_left_out() {
        let errors = ValidationErrors::of("body");
        errors.add("steps[1]", "is text");
        errors.add("name", "is missing");
        let more = ["name", "names", "steps[1].id", "steps[1]", "steps[12].id", "steps"];
        errors.add_unless_known(Problems(more.map(problem).into()));
        let Problems(found) = errors.or_else(Some(())).unwrap_err();
        let paths: Vec<&str> = found.iter().map(|problem| problem.place.as_str()).collect();
        assert_eq!(paths, ["steps[1]", "name", "names", "steps[12].id", "steps"]);
    }

    #[test]
    fn very_many_errors_are_counted_instead_of_listed() {
        let errors = ValidationErrors::of("body");
        for at in 0..5_000 {
            errors.add(format!("steps[{at}]"), "is wrong");
        }
        let Problems(found) = errors.or_else(Some(())).unwrap_err();
        assert_eq!(found.len(), MAX_LISTED + 1);
        assert_eq!(found[MAX_LISTED].message, "has 4900 more; correct these first");
    }

    #[test]
    fn a_value_with_errors_is_withheld() {
        assert_eq!(ValidationErrors::of("body").or_else(Some(7)), Ok(7));
        let errors = ValidationErrors::of("body");
        errors.add("name", "is missing");
        assert!(errors.or_else(Some(7)).is_err());
    }
}
