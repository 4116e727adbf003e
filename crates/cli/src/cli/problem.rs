//! Problems of the server as text.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::client::Server;
use super::text::shown;

/// A problem document (RFC 9457).
#[derive(Deserialize)]
struct Written {
    r#type: String,
    title: String,
    detail: String,
    #[serde(default)]
    problems: Vec<Mistake>,
    needed_role: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Mistake {
    place: String,
    message: String,
}

/// Why the server refused a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The last part of its type, such as `saga-not-found`.
    pub(crate) kind: String,
    /// What is wrong, and what to do.
    pub(crate) detail: String,
    mistakes: Vec<Mistake>,
    /// The address of its page.
    page: String,
    /// Additional hints, one per line.
    hints: Vec<String>,
    /// The problem, unchanged.
    pub(crate) json: String,
    /// `Retry-After` in seconds.
    pub(crate) wait: Option<u64>,
}

impl Refusal {
    /// None if the response is no problem document of Backstitch.
    pub(super) fn read(status: u16, json: &str, server: &Server, has_key: bool) -> Option<Self> {
        let written: Written = serde_json::from_str(json).ok()?;
        let kind = written.r#type.strip_prefix("/docs/errors/")?.to_owned();
        let role = written.needed_role.as_deref().unwrap_or("ROLE");
        let make =
            format!("make one where the server runs: `backstitch keys create --role {role} --name NAME`");
        let hints = match status {
            401 if has_key => vec!["the key is that of --key-file or BACKSTITCH_KEY".to_owned(), make],
            401 => vec![make, "then give it with --key-file FILE or in BACKSTITCH_KEY".to_owned()],
            403 => vec![make],
            _ => Vec::new(),
        };
        let told = if written.detail.is_empty() { written.title } else { written.detail };
        Some(Self {
            status,
            kind: shown(&kind),
            detail: shown(&told),
            mistakes: written.problems,
            page: shown(&format!("{server}{}", written.r#type)),
            hints: hints.iter().map(|hint| shown(hint)).collect(),
            json: json.to_owned(),
            wait: None,
        })
    }

    /// Adds a hint.
    pub(crate) fn hint(&mut self, hint: String) {
        self.hints.push(hint);
    }

    /// The server's `Retry-After`.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.map(Duration::from_secs)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        for Mistake { place, message } in &self.mistakes {
            let line = shown(&format!("{place}: {message}"));
            // A single error is often the whole detail.
            if self.mistakes.len() > 1 || !self.detail.contains(&line) {
                write!(f, "\n  {line}")?;
            }
        }
        for hint in &self.hints {
            write!(f, "\n  {hint}")?;
        }
        write!(f, "\n  more about it: {}", self.page)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: u16, problem: &serde_json::Value) -> Option<Refusal> {
        Refusal::read(status, &problem.to_string(), &"http://127.0.0.1:1".parse().unwrap(), false)
    }

    #[test]
    fn problem_shows_its_errors_and_its_page() {
        let problem = json!({"type": "/docs/errors/invalid-fields", "title": "T", "status": 422, "detail": "correct them all",
            "problems": [{"place": "steps[0].id", "message": "is \u{1b}[31mmissing"}]});
        assert_eq!(
            read(422, &problem).unwrap().to_string(),
            "correct them all\n  steps[0].id: is \\u{1b}[31mmissing\n  more about it: http://127.0.0.1:1/docs/errors/invalid-fields"
        );
    }

    #[test]
    fn missing_key_error_says_how_to_create_one() {
        let problem = json!({"type": "/docs/errors/unauthenticated", "title": "T", "status": 401, "detail": "this needs a key"});
        let told = read(401, &problem).unwrap().to_string();
        assert!(told.contains("backstitch keys create") && told.contains("BACKSTITCH_KEY"), "{told}");
    }

    #[test]
    fn other_json_is_no_problem_document() {
        for other in [json!({"error": "no"}), json!({"type": "about:blank", "title": "t", "detail": "d"})] {
            assert!(read(404, &other).is_none());
        }
    }
}
