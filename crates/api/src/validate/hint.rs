//! "Did you mean": the known word nearest to a misspelt one.

/// Longer words get no hint: comparing them takes long.
const MAX_LENGTH: usize = 64;

/// The known word that was probably meant.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > MAX_LENGTH {
        return None;
    }
    let written = written.to_lowercase().replace('-', "_");
    let near = known.into_iter().filter_map(|word| {
        let distance = strsim::damerau_levenshtein(&written, &word.to_lowercase());
        // A third of the letters may be wrong; of a short word one at least.
        (distance <= (word.len() / 3).max(1)).then_some((distance, word))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 6] = ["id", "title", "depends_on", "retry", "timeout", "compensate"];

    #[test]
    fn a_misspelt_word_is_recognised() {
        for (written, meant) in [
            ("retyr", "retry"),
            ("Retry", "retry"),
            ("depends-on", "depends_on"),
            ("dependsOn", "depends_on"),
            ("compensation", "compensate"),
            ("timeuot", "timeout"),
            ("ids", "id"),
        ] {
            assert_eq!(nearest(written, FIELDS), Some(meant), "{written}");
        }
    }

    #[test]
    fn a_different_word_gets_no_hint() {
        for written in ["queue", "", "x-owner", "ä", &"retry".repeat(1000)] {
            assert_eq!(nearest(written, FIELDS), None, "{written}");
        }
    }
}
