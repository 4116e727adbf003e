//! Types of events, and the patterns by which subscriptions name them.
//!
//! A type is a few words with dots between, `order.created`. A pattern is a type, or `order.*` for everything below
//! `order`, or `*` for everything.

use std::collections::HashSet;

use backstitch_api::validate::quoted;

use super::error::Error;

/// The longest type, in bytes.
pub(super) const MAX_TYPE: usize = 200;
const ALL: &str = "*";

/// Checks the type of an event.
///
/// # Errors
/// When it is none.
pub fn check_type(name: &str) -> Result<(), Error> {
    check_type_text(name).map_err(|why| Error::invalid("type", why))
}

pub(super) fn check_type_text(name: &str) -> Result<(), String> {
    if is_type(name) {
        return Ok(());
    }
    Err(format!(
        "`{}` is no type: use words of letters, digits, - and _ with dots between, such as order.created",
        quoted(name)
    ))
}

/// Checks the patterns of a subscription.
///
/// # Errors
/// When there are none, one is no pattern, or one is there twice: what to do.
pub fn check_patterns(patterns: &[String]) -> Result<(), String> {
    if patterns.is_empty() {
        return Err("is empty: name at least one type, or * for all".to_owned());
    }
    let is_pattern = |pattern: &str| pattern == ALL || is_type(pattern.strip_suffix(".*").unwrap_or(pattern));
    if let Some(wrong) = patterns.iter().find(|pattern| !is_pattern(pattern)) {
        return Err(format!("holds `{}`: use a type, order.* for all below it, or * for all", quoted(wrong)));
    }
    // Nothing would be sent twice for it, but whoever writes one twice meant another one.
    let mut seen = HashSet::new();
    match patterns.iter().find(|pattern| !seen.insert(*pattern)) {
        None => Ok(()),
        Some(twice) => Err(format!("holds `{twice}` twice: name each type once")),
    }
}

/// Every pattern that this type matches.
pub(super) fn patterns_of(name: &str) -> Vec<String> {
    let mut patterns = vec![ALL.to_owned(), name.to_owned()];
    patterns.extend(name.match_indices('.').map(|(dot, _)| format!("{}.*", &name[..dot])));
    patterns
}

/// Whether a type is among what these patterns name.
pub(super) fn matches(patterns: &[String], name: &str) -> bool {
    patterns_of(name).iter().any(|matching| patterns.contains(matching))
}

fn is_type(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    name.len() <= MAX_TYPE && name.split('.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|&pattern| pattern.to_owned()).collect()
    }

    #[test]
    fn a_pattern_names_a_type_all_below_it_or_all() {
        for (pattern, name, is_named) in [
            ("order.created", "order.created", true),
            ("order.created", "order.created.late", false),
            ("order.*", "order.created", true),
            ("order.*", "order.created.late", true),
            ("order.*", "order", false),
            ("order.*", "orders.created", false),
            ("*", "order", true),
            ("*", "order.created.late", true),
        ] {
            assert_eq!(matches(&patterns(&[pattern]), name), is_named, "{pattern} and {name}");
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for wrong in
            ["", ".", "order.", ".order", "order..created", "order created", "order.*", "*", "a\n", "ä"]
        {
            assert!(check_type(wrong).is_err(), "{wrong:?}");
        }
        check_type(&"x".repeat(MAX_TYPE)).unwrap();
        assert!(check_type(&"x".repeat(MAX_TYPE + 1)).is_err());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        check_patterns(&patterns(&["*", "order.*", "order.created"])).unwrap();
        for wrong in [&[][..], &["order*"], &["*.created"], &["order.*.late"], &["**"], &[""]] {
            assert!(check_patterns(&patterns(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_pattern_that_is_there_twice_is_told() {
        let twice = check_patterns(&patterns(&["order.*", "invoice.paid", "order.*"]));
        assert_eq!(twice.unwrap_err(), "holds `order.*` twice: name each type once");
        // Not the same, although the first has all that the second has.
        check_patterns(&patterns(&["order.*", "order.created"])).unwrap();
    }
}
