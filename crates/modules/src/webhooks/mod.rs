//! Webhooks: events that are sent to whoever subscribed to them, until they have arrived.

pub mod egress;
pub mod headers;
pub mod lanes;
pub mod sender;
pub mod signature;
pub mod vault;
