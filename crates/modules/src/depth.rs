//! How deep a JSON document is nested, found out before anything takes it apart.

/// Whether arrays and objects are nested deeper than this anywhere.
#[must_use]
pub fn exceeds(json: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    false
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_and_what_stands_in_strings_does_not() {
        assert!(!exceeds(br#"{"a": [1, {"b": []}]}"#, 4));
        assert!(exceeds(br#"{"a": [1, {"b": []}]}"#, 3));
        assert!(!exceeds(br#"["[[[[", "\"[[[[", "\\"]"#, 1));
        assert!(!exceeds(b"[] [] {} ]]]]", 1));
    }
}
