//! The products on the engine.

pub mod alerts;
pub mod declaration;
pub mod http_call;
pub mod only_object;
pub mod orders;
mod outgoing;
mod reading;
pub mod webhooks;
