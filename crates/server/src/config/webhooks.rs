//! How webhooks are sent, and where they may go.

use backstitch_modules::webhooks::{egress, lanes};
use serde::{Deserialize, Serialize};

/// How webhooks are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhooks {
    /// Requests of this process at once, to all endpoints together; 0 leaves all of them to outside workers.
    pub concurrency: usize,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self { concurrency: lanes::Settings::default().places }
    }
}

/// Where webhooks may go, beside the open internet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Ranges of addresses that are closed otherwise.
    pub allow: Vec<String>,
}

impl Egress {
    /// Everything that could not work.
    pub(super) fn mistakes(&self) -> Vec<String> {
        egress::Egress::allowing(&self.allow).err().map(|bad| bad.mistakes).unwrap_or_default()
    }
}
