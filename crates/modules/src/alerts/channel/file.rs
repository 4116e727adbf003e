//! A file with one line of JSON for each alert: what mail is to production, this is to development.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use backstitch::Timestamp;

use super::{Alert, Channel};
use crate::alerts::text;

pub(super) struct Lines {
    path: Arc<PathBuf>,
    /// One line at a time.
    turn: Arc<Mutex<()>>,
}

impl Lines {
    pub(super) fn in_file(path: &Path) -> Result<Self, String> {
        let made = open(path).and_then(|file| {
            file.sync_all()?;
            sync_folder_of(path)
        });
        made.map_err(|why| {
            format!("`{}` cannot be written ({why}): name a file in a folder that is there", path.display())
        })?;
        Ok(Self { path: Arc::new(path.to_owned()), turn: Arc::default() })
    }
}

#[async_trait]
impl Channel for Lines {
    fn name(&self) -> &'static str {
        "file"
    }

    async fn deliver(&self, alert: &Alert, _now: Timestamp) -> Result<(), String> {
        let line = text::json(alert).to_string();
        let (path, turn) = (self.path.clone(), self.turn.clone());
        let written = tokio::task::spawn_blocking(move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            append(&path, &line)
        });
        let written = written.await.map_err(|why| why.to_string())?;
        written.map_err(|why| format!("`{}` cannot be written: {why}", self.path.display()))
    }
}

/// Opened each time, since the file may be taken away to be kept elsewhere.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = open(path)?;
    let end = if ends_in_a_line(&mut file)? { "" } else { "\n" };
    file.write_all(format!("{end}{line}\n").as_bytes())?;
    file.sync_all()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// Not so when a crash cut the last line short.
fn ends_in_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alerts.jsonl");
        std::fs::write(&path, "{}\n{\"cut").unwrap();
        append(&path, "{\"whole\":1}").unwrap();
        append(&path, "{\"whole\":2}").unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, "{}\n{\"cut\n{\"whole\":1}\n{\"whole\":2}\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Lines::in_file(&folder.path().join("missing/alerts.jsonl")).err().unwrap();
        assert!(refused.contains("missing/alerts.jsonl") && refused.contains("folder"), "{refused}");
    }
}
