//! Request validation: typed values read from JSON, with all errors reported together and their schemas in one place.
//!
//! A type implements [`Input`] once: how it is read, what is wrong with other values, and its schema in `/openapi.json`.
//! [`request!`](crate::request) does so for structs. ADR 29 says why.

mod duration;
mod durations;
mod errors;
mod hint;
mod input;
mod integer;
mod list;
#[doc(hidden)]
pub mod macros;
mod node;
mod request;
pub mod schema;
mod text;
mod tree;
mod word;

pub use duration::{duration_pattern, shown_duration, written_duration};
pub use durations::{AttemptTimeout, Delay, DurationText, Overlap, WaitText, WrittenDuration};
pub use errors::ValidationErrors;
pub use hint::nearest;
pub use input::{Input, Omittable, Partial, Setting, read, read_partially};
pub use integer::{Bounded, RowNumber};
pub use list::List;
pub use node::{Node, Object, quoted};
pub use text::{Attributes, FilledLabel, Label, Note, ReasonNote};
pub use tree::Tree;
