//! Lifecycles: the machines that are declared, where each thing stands, and how it is moved on by hand.

pub(super) mod change;
pub(super) mod dead_letters;
mod diagram;
pub(super) mod instance;
pub(super) mod list;
pub(super) mod machine;
pub(super) mod operate;
pub(super) mod whole;

use super::address::escaped;

/// Where things about a machine are.
fn machine_place(machine: &str) -> String {
    format!("/lifecycles/{}", escaped(machine))
}

/// Where things about one of its instances are. What a machine has beside its keys is elsewhere, so that every key can be one.
pub(super) fn place(machine: &str, key: &str) -> String {
    format!("/lifecycles/{}/{}", escaped(machine), escaped(key))
}
