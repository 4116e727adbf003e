//! JSON as people read it: the same text, indented. Nothing of it is read as a number or put into another order.

/// Indents a text that is JSON.
pub(crate) fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                text.push(c);
                let mut escaped = false;
                for c in rest.by_ref() {
                    text.push(c);
                    if c == '"' && !escaped {
                        break;
                    }
                    escaped = c == '\\' && !escaped;
                }
            }
            '{' | '[' => {
                text.push(c);
                while rest.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = rest.next_if(|&next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => text.push(c),
        }
    }
    text
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_nothing_of_it_is_changed() {
        let shown = indented(r#"{"b":1, "a":[ ],"n":123456789012345678901234567890,"t":"a\"{,:}"}"#);
        let expected = r#"{
  "b": 1,
  "a": [],
  "n": 123456789012345678901234567890,
  "t": "a\"{,:}"
}"#;
        assert_eq!(shown, expected);
        assert_eq!(indented("null"), "null");
        assert_eq!(
            indented(r#"[[1,2],{"a":{}}]"#),
            "[\n  [\n    1,\n    2\n  ],\n  {\n    \"a\": {}\n  }\n]"
        );
    }
}
