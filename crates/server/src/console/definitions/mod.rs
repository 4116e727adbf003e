//! Definitions: what is declared, what is active against what is staged, and how one becomes the other.

pub(super) mod change;
pub(super) mod definition;
pub(super) mod list;
mod plans;
pub(super) mod write;

use super::address::escaped;

/// Where things about a definition are.
fn place(name: &str) -> String {
    format!("/definitions/{}", escaped(name))
}
