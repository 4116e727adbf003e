//! What is different in a text, line by line.

use askama::Template;
use askama::filters::HtmlSafe;
use similar::{ChangeTag, TextDiff};

/// Lines that are shown around each difference.
const AROUND: usize = 3;

/// The difference of two texts.
#[derive(Template)]
#[template(
    source = r#"<pre class="diff">{% for line in lines %}{% if line.sign == '+' %}<ins>+ {{ line.text }}</ins>{% else if line.sign == '-' %}<del>- {{ line.text }}</del>{% else if line.sign == ' ' %}  {{ line.text }}{% else %}<span class="soft">…</span>{% endif %}
{% endfor %}</pre>"#,
    ext = "html"
)]
pub(crate) struct LineDiff {
    lines: Vec<Line>,
}

impl HtmlSafe for LineDiff {}

struct Line {
    sign: char,
    text: String,
}

impl LineDiff {
    pub(crate) fn of(before: &str, after: &str) -> Self {
        let diff = TextDiff::from_lines(before, after);
        let mut lines = Vec::new();
        for (nth, group) in diff.grouped_ops(AROUND).iter().enumerate() {
            if nth > 0 {
                lines.push(Line { sign: '…', text: String::new() });
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let sign = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                lines.push(Line { sign, text: change.value().trim_end_matches('\n').to_owned() });
            }
        }
        Self { lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_came_and_went_are_marked_with_those_around_them() {
        let before: Vec<String> = (1..=20).map(|line| line.to_string()).collect();
        let after = before.join("\n").replace("\n2\n", "\n<b>\n").replace("\n18\n", "\n");
        let diff = LineDiff::of(&before.join("\n"), &after);
        let told: Vec<String> = diff.lines.iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        let expected = [" 1", "-2", "+<b>", " 3", " 4", " 5", "…", " 15", " 16", " 17", "-18", " 19", " 20"];
        assert_eq!(told, expected);
        let shown = diff.render().unwrap();
        assert!(shown.contains("<ins>+ &#60;b&#62;</ins>") && shown.contains("<del>- 18</del>"), "{shown}");
    }
}
