//! The one place that knows how answers are shown: to people as text, to programs as JSON.

use std::io::{self, IsTerminal as _};

pub(crate) use backstitch_bench::print::{PrintError, line, note, text as print};

use super::text::shown_json;

/// How this process shows what it has to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// The API's JSON, for programs.
    pub(crate) json: bool,
    /// Somebody looks at it while it happens.
    pub(crate) is_live: bool,
    pub(crate) colours: bool,
    /// How wide the terminal is; none where it is no terminal, and nothing is cut.
    pub(crate) width: Option<u16>,
}

impl Output {
    pub(crate) fn of_this_process(json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let wants_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let width = || console::Term::stdout().size_checked().map(|(_, columns)| columns);
        Self {
            json,
            is_live: is_terminal && !json,
            colours: is_terminal && wants_colours && !json,
            width: is_terminal.then(width).flatten().filter(|width| *width > 0),
        }
    }

    /// An object of JSON as it came, on a line of its own, where programs read.
    pub(crate) fn json(self, json: &str) -> Result<(), PrintError> {
        if !self.json {
            return Ok(());
        }
        print(&format!("{}\n", shown_json(json.trim_end())))
    }

    /// A line for people, where people read.
    pub(crate) fn line(self, text: &str) -> Result<(), PrintError> {
        if self.json { Ok(()) } else { print(&format!("{text}\n")) }
    }

    /// What is said beside the answer: it gets into nobody's pipe.
    pub(crate) fn aside(self, text: &str) {
        if !self.json {
            note(format_args!("{text}"));
        }
    }
}
