//! What a lifecycle may be called.

use std::ops::RangeInclusive;

use backstitch_api::text_type;

/// The longest key, in bytes.
pub const MAX_KEY: usize = 200;

text_type! {
    /// Which one of a machine: anything that can be seen, up to 200 bytes, with blanks only between its characters.
    LifecycleKey key_pattern(), 1, MAX_KEY, "p-17", |key: &str| key_mistake(key).map_or(Ok(()), Err);
}

/// What is wrong with a key, and what to do; nothing where it can be one. Two keys that look the same are the same: a key has
/// blanks only between its characters, and no character that nobody can see.
#[must_use]
pub fn key_mistake(key: &str) -> Option<String> {
    if key.is_empty() || key.len() > MAX_KEY {
        return Some(format!("must have 1 to {MAX_KEY} bytes"));
    }
    if matches!(key, "." | "..") {
        return Some("stands for a place in every address: choose another one".to_owned());
    }
    if let Some(odd) = key.chars().find(|letter| !can_be_seen(*letter)) {
        return Some(format!("contains {odd:?}: use characters that can be seen"));
    }
    if key.starts_with(' ') || key.ends_with(' ') {
        return Some("begins or ends with a blank: leave it out".to_owned());
    }
    None
}

/// What leaves no mark: Unicode's controls of formatting (`Cf`), and the others that it calls ignorable by default or that
/// are drawn as nothing.
const UNSEEN: [RangeInclusive<char>; 26] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

/// The same as a regular expression, for descriptions of the API: everything but the length.
#[must_use]
pub fn key_pattern() -> String {
    let mut unseen = String::from(
        "\u{0}-\u{1f}\u{7f}-\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}",
    );
    for range in &UNSEEN {
        unseen.extend([*range.start(), '-', *range.end()]);
    }
    format!("^(?!\\.{{1,2}}$)[^ {unseen}]([^{unseen}]*[^ {unseen}])?$")
}

fn can_be_seen(letter: char) -> bool {
    let is_blank = letter.is_whitespace() && letter != ' ';
    !letter.is_control() && !is_blank && !UNSEEN.iter().any(|range| range.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_whatever_can_be_seen_with_blanks_between() {
        for good in
            ["s", "docs of ada", "a/b?c#d", "Größe", "日本語", "Ελλάδα", "🧵", "%00", "-", "...", "नमस्ते"]
        {
            assert_eq!(key_mistake(good), None, "{good:?}");
        }
        assert_eq!(key_mistake(&"x".repeat(MAX_KEY)), None);
        for (bad, why) in [
            ("", "1 to 200 bytes"),
            (" a", "with a blank"),
            ("a ", "with a blank"),
            (" ", "with a blank"),
            ("..", "address"),
        ] {
            assert!(key_mistake(bad).is_some_and(|told| told.contains(why)), "{bad:?}");
        }
        assert!(
            key_mistake(&"ü".repeat(MAX_KEY / 2 + 1)).is_some_and(|told| told.contains("1 to 200 bytes"))
        );
    }

    #[test]
    fn what_leaves_no_mark_is_named_wherever_it_stands() {
        for unseen in [
            '\0',
            '\n',
            '\t',
            '\u{7f}',
            '\u{85}',
            '\u{a0}',
            '\u{ad}',
            '\u{115f}',
            '\u{200b}',
            '\u{200d}',
            '\u{2028}',
            '\u{202e}',
            '\u{2060}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            for key in
                [format!("{unseen}"), format!("{unseen}a"), format!("a{unseen}"), format!("a{unseen}b")]
            {
                let told = key_mistake(&key).unwrap();
                assert!(told.contains(&format!("contains {unseen:?}: use")), "{key:?}: {told}");
            }
        }
    }
}
