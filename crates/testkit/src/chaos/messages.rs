//! Where the outbox's messages arrive: a file that outlives the sender.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use backstitch::relay::{Message, Sink};

/// What tells a message from all others: its topic and its key.
pub type Name = (String, String);

/// Appends every message to a file, repeated ones too.
#[derive(Debug)]
pub struct FileSink(File);

impl FileSink {
    /// Goes on with the file in this folder, or begins it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(folder: &Path) -> io::Result<Self> {
        File::options().create(true).append(true).open(path(folder)).map(Self)
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn send(&self, message: &Message) -> Result<(), String> {
        let line = format!("{} {}\n", message.topic, message.idempotency_key);
        (&self.0).write_all(line.as_bytes()).map_err(|error| error.to_string())
    }
}

/// Every message that arrived, repeated ones once.
///
/// # Errors
/// When the file cannot be read.
pub fn delivered(folder: &Path) -> io::Result<BTreeSet<Name>> {
    let text = match std::fs::read_to_string(path(folder)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let names = text.lines().filter_map(|line| line.split_once(' '));
    Ok(names.map(|(topic, key)| (topic.to_owned(), key.to_owned())).collect())
}

fn path(folder: &Path) -> PathBuf {
    folder.join("messages")
}
