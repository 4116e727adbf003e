//! What somebody says about what they do, as it stays in the log of what it is about.

use backstitch_api::validate::Note;

use crate::problem::Problem;

/// Refuses a note that is longer than the API's description says.
pub(crate) fn check_note(note: &str) -> Result<(), Problem> {
    Note::check(note).map_err(|why| Problem::field("note", why))
}

/// With their name before it; the name alone where they say nothing.
pub(crate) fn signed(name: &str, note: &str) -> String {
    match note.trim() {
        "" => name.to_owned(),
        note => format!("{name}: {note}"),
    }
}
