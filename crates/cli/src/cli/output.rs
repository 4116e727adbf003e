//! Output: text for people, JSON for programs.

use std::io::{self, IsTerminal as _};

pub(crate) use backstitch_bench::print::{PrintError, line, note, text as print};

use super::text::shown_json;

/// How this process writes output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// JSON.
    pub(crate) json: bool,
    /// Output is a terminal.
    pub(crate) is_live: bool,
    pub(crate) colours: bool,
    /// The terminal's width; none without a terminal, and nothing is shortened.
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

    /// Prints a JSON object on one line, with `--json`.
    pub(crate) fn json(self, json: &str) -> Result<(), PrintError> {
        if !self.json {
            return Ok(());
        }
        print(&format!("{}\n", shown_json(json.trim_end())))
    }

    /// Prints a line, without `--json`.
    pub(crate) fn line(self, text: &str) -> Result<(), PrintError> {
        if self.json { Ok(()) } else { print(&format!("{text}\n")) }
    }

    /// Prints to standard error, so it reaches no pipe.
    pub(crate) fn aside(self, text: &str) {
        if !self.json {
            note(format_args!("{text}"));
        }
    }
}
