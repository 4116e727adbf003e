//! Definitions that were written down as data.

use std::sync::Arc;

use backstitch_kernel::Timestamp;

/// A name under which definitions are declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The name.
    pub name: Arc<str>,
    /// The version that new sagas take; none before the first one is applied.
    pub active: Option<u32>,
    /// The version that waits to be applied or discarded.
    pub staged: Option<u32>,
    /// Every version there is, oldest first.
    pub versions: Vec<Version>,
}

/// One version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// When it was staged.
    pub created_at: Timestamp,
}

/// Sagas that have not ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The version they were started with.
    pub version: u32,
    /// How many there are.
    pub sagas: u64,
}

/// Puts rows of names and versions together.
#[derive(Default)]
pub(super) struct Collected(Vec<Declared>);

impl Collected {
    pub(super) fn add(&mut self, name: &str, active: Option<u32>, staged: Option<u32>, version: Version) {
        match self.0.last_mut() {
            Some(last) if &*last.name == name => last.versions.push(version),
            _ => self.0.push(Declared { name: name.into(), active, staged, versions: vec![version] }),
        }
    }

    pub(super) fn all(self) -> Vec<Declared> {
        self.0
    }
}
