//! Naming rules as regular expressions, for the description of the API. Lengths are not part of them: JSON Schema counts
//! characters,
//! and the rules count bytes.

use crate::lifecycle::draft::OK;

/// Letters and digits as ranges of a character class. Not every regex dialect has `\p{Alphabetic}`, and all of its 700
/// ranges would
/// be slow; names in other scripts are valid too.
const ALPHANUMERIC: &str = "0-9A-Za-zÀ-ÖØ-öø-ˁΑ-ΡΣ-ϵЀ-ҁҊ-ԯא-תؠ-يก-ะา-ำเ-ๆぁ-ゖァ-ヺー-ヿ㐀-䶿一-鿿가-힣";

/// A name or an id, such as that of a step or a queue.
#[must_use]
pub fn id_pattern() -> String {
    id_but_for(&["\\.{1,2}"])
}

/// A kind of error: a name other than that of success.
#[must_use]
pub fn error_kind_pattern() -> String {
    id_but_for(&["\\.{1,2}", OK])
}

/// The name of a state: one part of a topic.
#[must_use]
pub fn state_pattern() -> String {
    format!("^[{ALPHANUMERIC}_-]+$")
}

/// The prefix of topics: parts separated by dots; the first part is none of these.
#[must_use]
pub fn subject_pattern(reserved: &[&str]) -> String {
    let reserved: Vec<String> = reserved.iter().map(|topics| topics.replace('.', "\\.")).collect();
    let reserved = reserved.join("|");
    format!("^(?!({reserved})(\\.|$))(?!\\.)(?!.*\\.(\\.|$))[{ALPHANUMERIC}._-]+$")
}

/// Letters, digits, `-`, `_` and `.`, except these words.
fn id_but_for(words: &[&str]) -> String {
    format!("^(?!({})$)[{ALPHANUMERIC}._-]+$", words.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_only_letters_and_digits() {
        let letters: Vec<char> = ALPHANUMERIC.chars().collect();
        for range in letters.chunks(3) {
            let [first, '-', last] = *range else { panic!("{range:?} is no range") };
            let odd = (first..=last).find(|letter| !letter.is_alphanumeric());
            assert_eq!(odd, None, "in {first}-{last}");
        }
    }
}
