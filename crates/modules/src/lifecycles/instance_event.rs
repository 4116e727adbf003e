//! An event of any instance, for subscribers of everything.

use std::sync::Arc;

use backstitch::SagaId;
use backstitch::kernel::lifecycle::Recorded;

/// An event and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceEvent {
    /// Whose log it is in.
    pub id: SagaId,
    /// The machine.
    pub machine: Arc<str>,
    /// Which one of this machine.
    pub key: Arc<str>,
    /// What happened.
    pub recorded: Recorded,
}
