//! Lifecycle machines as people write them.

mod forms;
mod mistakes;
mod properties;
mod support;
