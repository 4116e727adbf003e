//! The mistakes found so far.

use std::cell::{Cell, RefCell};

use backstitch::{Problem, Problems};

/// Nobody reads further than this.
const MOST: usize = 100;

/// Collects mistakes while a tree is read.
#[derive(Default)]
pub(crate) struct Mistakes {
    found: RefCell<Vec<Problem>>,
    left_out: Cell<usize>,
}

impl Mistakes {
    pub(crate) fn add(&self, place: impl Into<String>, message: impl Into<String>) {
        let mut found = self.found.borrow_mut();
        if found.len() < MOST {
            found.push(Problem { place: place.into(), message: message.into() });
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    /// Adds what another check has found, unless it only follows from a mistake that is known at its place or around it.
    pub(crate) fn add_unless_known(&self, Problems(more): Problems) {
        let known: Vec<String> = self.found.borrow().iter().map(|problem| problem.place.clone()).collect();
        let more = more.into_iter().filter(|new| !known.iter().any(|place| is_within(&new.place, place)));
        for problem in more {
            self.add(problem.place, problem.message);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Whether something is wrong at this place or inside it.
    pub(crate) fn are_within(&self, place: &str) -> bool {
        self.found.borrow().iter().any(|problem| is_within(&problem.place, place))
    }

    /// This value if nothing was wrong, and all that was wrong otherwise.
    pub(crate) fn or_else<T>(self, value: Option<T>) -> Result<T, Problems> {
        let mut found = self.found.into_inner();
        match (value, self.left_out.get()) {
            (Some(value), _) if found.is_empty() => Ok(value),
            (_, 0) => Err(Problems(found)),
            (_, left_out) => {
                let message = format!("has {left_out} more; correct these first");
                found.push(Problem { place: "the rest".to_owned(), message });
                Err(Problems(found))
            }
        }
    }
}

fn is_within(place: &str, around: &str) -> bool {
    place.strip_prefix(around).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(place: &str) -> Problem {
        Problem { place: place.to_owned(), message: "is wrong".to_owned() }
    }

    #[test]
    fn what_only_follows_from_a_known_mistake_is_not_told() {
        let mistakes = Mistakes::default();
        mistakes.add("steps[1]", "is text");
        mistakes.add("name", "is missing");
        let more = ["name", "names", "steps[1].id", "steps[1]", "steps[12].id", "steps"];
        mistakes.add_unless_known(Problems(more.map(problem).into()));
        let Problems(found) = mistakes.or_else(Some(())).unwrap_err();
        let places: Vec<&str> = found.iter().map(|problem| problem.place.as_str()).collect();
        assert_eq!(places, ["steps[1]", "name", "names", "steps[12].id", "steps"]);
    }

    #[test]
    fn very_many_mistakes_are_counted_instead_of_listed() {
        let mistakes = Mistakes::default();
        for at in 0..5_000 {
            mistakes.add(format!("steps[{at}]"), "is wrong");
        }
        let Problems(found) = mistakes.or_else(Some(())).unwrap_err();
        assert_eq!(found.len(), MOST + 1);
        assert_eq!(found[MOST].message, "has 4900 more; correct these first");
    }

    #[test]
    fn a_value_counts_only_when_nothing_is_wrong() {
        assert_eq!(Mistakes::default().or_else(Some(7)), Ok(7));
        let mistakes = Mistakes::default();
        mistakes.add("name", "is missing");
        assert!(mistakes.or_else(Some(7)).is_err());
    }
}
