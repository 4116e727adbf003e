//! The receiver of the outbox's messages: a file that survives the sender.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use backstitch::sink::{Message, Receipt, Sink, Undelivered};

use super::lines::{self, Lines};

/// The topic and key of a message.
pub type Name = (String, String);

/// Appends every message to a file, repeats included.
#[derive(Debug)]
pub struct FileSink(Lines);

impl FileSink {
    /// Opens or creates the file in this directory.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Lines::open(&path(folder)).map(Self)
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn send(&self, message: &Message) -> Result<Receipt, Undelivered> {
        let line = format!("{} {}", message.topic, message.idempotency_key);
        self.0.append(&line).map_err(|error| Undelivered::from(error.to_string()))?;
        Ok(Receipt::default())
    }
}

/// Every delivered message without repeats.
///
/// # Errors
/// When the file cannot be read.
pub fn delivered(folder: &Path) -> io::Result<BTreeSet<Name>> {
    let lines = lines::read(&path(folder))?;
    let names = lines.iter().filter_map(|line| line.split_once(' '));
    Ok(names.map(|(topic, key)| (topic.to_owned(), key.to_owned())).collect())
}

fn path(folder: &Path) -> PathBuf {
    folder.join("messages")
}
