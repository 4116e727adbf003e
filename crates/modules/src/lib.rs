//! The products on the engine.

pub mod declaration;
pub mod http_call;
mod reading;
