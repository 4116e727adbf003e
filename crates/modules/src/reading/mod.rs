//! JSON read by hand, so that a person who has made several mistakes is told all of them, each by its place.

mod duration;
mod hint;
mod mistakes;
mod node;
mod tree;

pub use duration::{duration_pattern, shown_duration, written_duration};
pub use hint::nearest;
pub(crate) use mistakes::Mistakes;
pub(crate) use node::{Node, Object, quoted};
pub(crate) use tree::Tree;
