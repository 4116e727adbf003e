//! What somebody who misspelt a word has probably meant.

/// Nobody misspells a word longer than this, and comparing long ones takes long.
const LONGEST: usize = 64;

/// The known word that is so near to this one that it is probably meant.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > LONGEST {
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
    fn a_slip_of_the_finger_is_understood() {
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
    fn a_word_of_its_own_is_left_alone() {
        for written in ["queue", "", "x-owner", "ä", &"retry".repeat(1000)] {
            assert_eq!(nearest(written, FIELDS), None, "{written}");
        }
    }
}
