//! Messages to the world: order requests, messages of any topic, and what became of them.

pub(super) mod do_order;
pub(super) mod list;
pub(super) mod message;
pub(super) mod publish;
pub(super) mod retry;
