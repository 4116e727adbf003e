//! Escapes text from others for a terminal.

use std::fmt::Write as _;

/// The text on one line, with everything that a terminal would interpret escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_obeyed(char) {
            shown.extend(char.escape_debug());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Equivalent JSON, with everything that a terminal would interpret escaped.
///
/// JSON strings cannot contain most of it anyway; the rest has JSON escapes.
pub(crate) fn shown_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        // Whitespace between values; JSON strings do not contain it.
        if is_obeyed(char) && !matches!(char, '\n' | '\r' | '\t') {
            // Writing to text cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(char));
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Whether a terminal interprets the character: escape sequences, and marks of text direction.
fn is_obeyed(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(shown("a\u{1b}[2Jb\r\n\tc"), "a\\u{1b}[2Jb\\r\\n\\tc");
        assert_eq!(shown("\u{9b}31m \u{7f} \u{202e}gnp"), "\\u{9b}31m \\u{7f} \\u{202e}gnp");
        assert_eq!(shown("schöne Grüße, 東京 ✓ \\n"), "schöne Grüße, 東京 ✓ \\n");
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let value = serde_json::json!({ "a": "\u{1b}[31m \u{9b}2J \u{7f} \u{202e} ü" });
        let shown = shown_json(&value.to_string());
        assert!(!shown.contains(is_obeyed), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert_eq!(shown_json("{\n\t\"a\": 1\r\n}"), "{\n\t\"a\": 1\r\n}");
    }
}
