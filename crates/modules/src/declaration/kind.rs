//! Which of the things that people declare a document is.

use backstitch::Problems;

use super::{Format, tree};

/// What a document declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A saga: it has `steps`.
    Saga,
    /// A lifecycle's machine: it has `states`.
    Lifecycle,
}

impl Kind {
    /// What this document declares; nothing that is known where it has neither field.
    ///
    /// # Errors
    /// Where the document is broken: a mistake that no reader could look past.
    pub fn of(bytes: &[u8], format: Format) -> Result<Option<Self>, Problems> {
        let document = tree::parse(bytes, format)?;
        let has = |field| document.get(field).is_some();
        Ok(if has("steps") {
            Some(Self::Saga)
        } else if has("states") {
            Some(Self::Lifecycle)
        } else {
            None
        })
    }
}
