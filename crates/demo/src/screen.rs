//! Output lines, with colours in a terminal only.

use std::io::{IsTerminal, Write};
use std::time::Duration;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

pub(super) fn line(text: &str) {
    // A closed pipe must not end the demo before it has cleaned up.
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[derive(Clone, Copy)]
pub(super) struct Screen {
    colours: bool,
}

impl Screen {
    pub(super) fn of_this_process() -> Self {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { colours }
    }

    pub(super) fn title(self, number: usize, title: &str) {
        line(&format!("\n{}", self.painted(BOLD, &format!("{number}  {title}"))));
    }

    /// An event with its time since the beginning of the scene.
    pub(super) fn happened(self, after: Duration, what: &str) {
        let after = format!("{:>6.2} s", after.as_secs_f64());
        line(&format!("   {}  {what}", self.painted(DIM, &after)));
    }

    pub(super) fn good(self, what: &str) {
        line(&format!("   {} {what}", self.mark(true)));
    }

    pub(super) fn bad(self, what: &str) {
        line(&format!("   {} {what}", self.mark(false)));
    }

    pub(super) fn mark(self, good: bool) -> String {
        if good { self.painted(GREEN, "✓") } else { self.painted(RED, "✗") }
    }

    fn painted(self, colour: &str, text: &str) -> String {
        if self.colours { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }
}
