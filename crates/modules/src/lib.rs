//! The products on the engine.

pub mod declaration;
pub mod http_call;
pub mod orders;
mod reading;
