//! What a server says is wrong, as people read it.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::client::Server;
use super::text::shown;

/// A problem as the server wrote it (RFC 9457).
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

/// Why a server did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The end of its type: `saga-not-found`.
    pub(crate) kind: String,
    /// What is wrong, and what to do.
    pub(crate) detail: String,
    mistakes: Vec<Mistake>,
    /// The page that says more.
    page: String,
    /// What else helps, a line each.
    hints: Vec<String>,
    /// The problem as it came.
    pub(crate) json: String,
    /// After how many seconds to ask again.
    pub(crate) wait: Option<u64>,
}

impl Refusal {
    /// None where it is none of ours.
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

    /// With something else that helps.
    pub(crate) fn hint(&mut self, hint: String) {
        self.hints.push(hint);
    }

    /// How long the server wants to be left alone.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.map(Duration::from_secs)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        for Mistake { place, message } in &self.mistakes {
            let line = shown(&format!("{place}: {message}"));
            // A single one is often all that the detail says.
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
    fn a_problem_is_told_with_its_mistakes_and_its_page() {
        let problem = json!({"type": "/docs/errors/invalid-fields", "title": "T", "status": 422, "detail": "correct them all",
            "problems": [{"place": "steps[0].id", "message": "is \u{1b}[31mmissing"}]});
        assert_eq!(
            read(422, &problem).unwrap().to_string(),
            "correct them all\n  steps[0].id: is \\u{1b}[31mmissing\n  more about it: http://127.0.0.1:1/docs/errors/invalid-fields"
        );
    }

    #[test]
    fn a_missing_key_is_told_with_how_to_make_one() {
        let problem = json!({"type": "/docs/errors/unauthenticated", "title": "T", "status": 401, "detail": "this needs a key"});
        let told = read(401, &problem).unwrap().to_string();
        assert!(told.contains("backstitch keys create") && told.contains("BACKSTITCH_KEY"), "{told}");
    }

    #[test]
    fn what_is_no_problem_of_ours_is_none() {
        for other in [json!({"error": "no"}), json!({"type": "about:blank", "title": "t", "detail": "d"})] {
            assert!(read(404, &other).is_none());
        }
    }
}
