//! What somebody says about what they do, as it stays in the log of what it is about.

use crate::problem::Problem;

/// The longest note, in characters. A name comes before it, and the stores have room for both.
const LONGEST_NOTE: usize = 4096;

/// Refuses a note that is longer than the API's description says.
pub(crate) fn check_note(note: &str) -> Result<(), Problem> {
    let length = note.chars().count();
    if length > LONGEST_NOTE {
        return Err(Problem::field("note", format!("has {length} characters: use up to {LONGEST_NOTE}")));
    }
    Ok(())
}

/// With their name before it; the name alone where they say nothing.
pub(crate) fn signed(name: &str, note: &str) -> String {
    match note.trim() {
        "" => name.to_owned(),
        note => format!("{name}: {note}"),
    }
}
