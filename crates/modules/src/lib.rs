//! The products on the engine.

pub mod alerts;
pub mod declaration;
pub mod http_call;
pub mod key_file;
pub mod only_object;
pub mod orders;
mod outgoing;
pub mod randomness;
mod reading;
pub mod webhooks;
