//! An in-memory archive that can be made to refuse.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use backstitch::retention::{Archive, NotKept};
use serde_json::Value;

/// An archive that keeps everything.
#[derive(Default)]
pub struct Shelf {
    lines: Mutex<Vec<Value>>,
    refuses: Mutex<Option<String>>,
}

#[async_trait]
impl Archive for Shelf {
    async fn keep(&self, lines: Vec<String>) -> Result<(), NotKept> {
        if let Some(why) = self.refuses.lock().unwrap().clone() {
            return Err(NotKept(why));
        }
        let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        self.lines.lock().unwrap().extend(lines);
        Ok(())
    }
}

impl Shelf {
    /// Refuses with this reason from now on, or stops refusing.
    pub fn refuse(&self, why: Option<&str>) {
        *self.refuses.lock().unwrap() = why.map(str::to_owned);
    }

    /// The documents of this kind in order.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| line["kind"] == kind).cloned().collect()
    }

    /// How often each saga was archived.
    #[must_use]
    pub fn sagas(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for saga in self.of_kind("saga") {
            *counts.entry(saga["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        counts
    }
}
