//! Definitions as people write them.

mod diffs;
mod documents;
mod forms;
mod mistakes;
mod plans;
mod properties;
mod support;
