//! The products on the engine.

pub mod alerts;
pub mod declaration;
pub mod depth;
pub mod http_call;
pub mod only_object;
pub mod orders;
pub mod outbox;
mod outgoing;
mod reading;
mod settings;

pub use reading::nearest;
