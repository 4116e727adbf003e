//! A file of lines that survives its writer.
//!
//! A kill can cut an append short at the end of a page. Such a line counts as unwritten, because its writer died before
//! it acted
//! on the write.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Marks the end of a complete line.
const END: &str = " .";

/// The file, for appending.
#[derive(Debug)]
pub(super) struct Lines(File);

impl Lines {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::options().create(true).append(true).open(path).map(Self)
    }

    /// Writes one line to the page cache, where it survives a kill.
    pub(super) fn append(&self, line: &str) -> io::Result<()> {
        // The line break comes first, so that the next line does not continue a cut one.
        (&self.0).write_all(format!("\n{line}{END}").as_bytes())
    }
}

/// Every complete line in order; none without a file.
pub(super) fn read(path: &Path) -> io::Result<Vec<String>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    Ok(text.lines().filter_map(|line| line.strip_suffix(END)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_harms_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        assert!(read(&path).unwrap().is_empty());
        Lines::open(&path).unwrap().append("one").unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"\nthe second was cu").unwrap();
        Lines::open(&path).unwrap().append("three").unwrap();
        assert_eq!(read(&path).unwrap(), ["one", "three"]);
    }
}
