//! The beginning of a text that may be very long, with the way to all of it: a page stays small whatever somebody has kept.

use askama::Template;
use askama::filters::HtmlSafe;

use super::json_text::indented;

/// Letters that are shown of a text.
const SHOWN: usize = 2000;

/// A text, or its beginning.
#[derive(Template)]
#[template(
    source = r#"{{ text }}{% if let Some((bytes, place)) = whole %}… <a href="{{ place }}">all {{ bytes }} bytes</a>{% endif %}"#,
    ext = "html"
)]
pub(crate) struct Excerpt {
    text: String,
    /// How much there is and where, if it is not all here.
    whole: Option<(usize, String)>,
}

impl HtmlSafe for Excerpt {}

impl Excerpt {
    /// As it stands.
    pub(crate) fn of(mut text: String, place: impl FnOnce() -> String) -> Self {
        let Some((end, _)) = text.char_indices().nth(SHOWN) else { return Self { text, whole: None } };
        let bytes = text.len();
        text.truncate(end);
        Self { text, whole: Some((bytes, place())) }
    }

    /// The same of JSON, indented.
    pub(crate) fn of_json(json: &str, place: impl FnOnce() -> String) -> Self {
        // What is not shown is not indented first.
        let cut = Self::of(json.to_owned(), place);
        Self { text: indented(&cut.text), ..cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_letters_and_leads_to_all_of_it() {
        let short = Excerpt::of("ж".repeat(SHOWN), || unreachable!());
        assert_eq!(short.to_string(), "ж".repeat(SHOWN));
        let long = Excerpt::of("ж".repeat(SHOWN + 1), || "/all?a&b".to_owned()).to_string();
        let bytes = 2 * (SHOWN + 1);
        assert_eq!(long, format!("{}… <a href=\"/all?a&#38;b\">all {bytes} bytes</a>", "ж".repeat(SHOWN)));
        let json = format!("[1,\"{}\"]", "x".repeat(SHOWN));
        assert!(Excerpt::of_json(&json, String::new).to_string().starts_with("[\n  1,\n  &#34;xx"));
    }
}
