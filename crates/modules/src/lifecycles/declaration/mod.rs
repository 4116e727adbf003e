//! Machines as people write them, in YAML or JSON.
//!
//! ```
//! use backstitch_modules::declaration::Format;
//! use backstitch_modules::lifecycles::declaration;
//!
//! let parcel = declaration::read(
//!     br#"
//! name: parcel
//! initial: packed
//! states: [packed, sent, held, delivered]
//! terminal: [delivered]
//! pause: { held: sent }
//! edges: [[packed, sent], [sent, held], [sent, delivered]]
//! can_fail: [packed, sent]
//! error_kinds: [nobody_home]
//! actions:
//!   packed: { http: { url: "http://carrier/pick-up" }, next: { ok: sent } }
//!   sent: { worker: { queue: drivers }, next: { ok: delivered, nobody_home: held }, timeout: 2h }
//! stuck_after: { sent: 1day }
//! "#,
//!     Format::Yaml,
//! )?;
//! assert_eq!(parcel.actions["sent"].next["nobody_home"], "held");
//!
//! let mistaken = declaration::read(b"{name: parcel, initial: packd, states: [packed], edge: []}", Format::Yaml);
//! let places: Vec<String> = mistaken.unwrap_err().0.into_iter().map(|problem| problem.place).collect();
//! assert_eq!(places, ["edge", "initial"]);
//! # Ok::<(), backstitch::Problems>(())
//! ```

mod mend;
mod read;
mod show;

use backstitch::Problems;
use backstitch::kernel::lifecycle::Draft;
use serde_json::Value;

use crate::declaration::{Format, tree};

pub use read::{MAX_ANSWERS, MAX_NAMED};

/// Reads a machine.
///
/// # Errors
/// Every mistake at once, each with its place: what cannot be read, what is not known, and what makes no sense.
pub fn read(bytes: &[u8], format: Format) -> Result<Draft, Problems> {
    read::draft(&tree::parse(bytes, format)?)
}

/// The written form of a machine; what is as it is by default is left out. Reading it gives the same machine, as its first
/// version.
#[must_use]
pub fn show(draft: &Draft) -> Value {
    show::draft(draft)
}
