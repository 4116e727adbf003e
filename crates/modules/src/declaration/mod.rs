//! Definitions as people write them, in YAML or JSON.
//!
//! ```
//! use backstitch_modules::declaration::{Declaration, Format};
//!
//! let draft = Declaration::read(
//!     br#"
//! name: order
//! steps:
//!   - id: payment
//!     action:     { http: { url: "http://payment/charge" } }
//!     compensate: { http: { url: "http://payment/refund" } }
//!   - id: parcel
//!     action: { worker: { queue: logistics } }
//!     timeout: 5m
//! "#,
//!     Format::Yaml,
//! )?;
//! assert_eq!(draft.steps[1].timeout, backstitch::secs(300));
//!
//! let mistaken = Declaration::read(br#"{"name": "order", "steps": [{"idd": "payment"}]}"#, Format::Json);
//! let places: Vec<String> = mistaken.unwrap_err().0.into_iter().map(|problem| problem.place).collect();
//! assert_eq!(places, ["steps[0].idd", "steps[0].id", "steps[0].action"]);
//! # Ok::<(), backstitch::Problems>(())
//! ```

mod diff;
mod kind;
mod plan;
pub(crate) mod read;
mod redacted;
mod retry;
pub(crate) mod show;
pub(crate) mod tree;

use backstitch::{Draft, Problems};
use serde_json::Value;

pub use diff::{Change, What, changes};
pub use kind::Kind;
pub use plan::{MAX_PLANNED, Plan, Rollback, Unwinding};
pub use redacted::{machine_with_secrets, machine_without_secrets, with_secrets, without_secrets};
pub use retry::MAX_JITTER;
pub(crate) use retry::read_at as read_retry;

/// How a definition is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.2; it may use anchors, aliases and merge keys.
    Yaml,
}

/// The written form of definitions.
pub struct Declaration;

impl Declaration {
    /// Reads a definition.
    ///
    /// # Errors
    /// Every mistake at once, each with its place: what cannot be read, what is not known, and what makes no sense.
    pub fn read(bytes: &[u8], format: Format) -> Result<Draft, Problems> {
        read::draft(&tree::parse(bytes, format)?)
    }

    /// The written form of a definition; what is as it is by default is left out. Reading it gives the same definition.
    #[must_use]
    pub fn show(draft: &Draft) -> Value {
        show::draft(draft)
    }
}
