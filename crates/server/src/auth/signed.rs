//! What somebody says about what they do, as it stays in the log of what it is about.

/// With their name before it; the name alone where they say nothing.
pub(crate) fn signed(name: &str, note: &str) -> String {
    match note.trim() {
        "" => name.to_owned(),
        note => format!("{name}: {note}"),
    }
}
