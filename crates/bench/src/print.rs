//! Standard output and standard error of the program. Unlike `println!`, a closed pipe is an error and no panic.

use std::fmt::Arguments;
use std::io::{self, Write as _};

/// Why standard output took nothing.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The reader closed the pipe, as `head` does.
    #[error("the reader closed the output")]
    ReaderGone,
    /// Any other failure.
    #[error("cannot print: {0}")]
    Broken(io::Error),
}

/// Prints text to standard output and flushes it.
///
/// # Errors
/// [`PrintError::ReaderGone`] when the reader closed the pipe.
pub fn text(text: &str) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|why| match why.kind() {
        io::ErrorKind::BrokenPipe => PrintError::ReaderGone,
        _ => PrintError::Broken(why),
    })
}

/// Prints one line to standard output.
///
/// # Errors
/// As [`text`].
pub fn line(line: Arguments<'_>) -> Result<(), PrintError> {
    text(&format!("{line}\n"))
}

/// Prints one line to standard error. A closed standard error is ignored, because no other place is left to report it.
pub fn note(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
