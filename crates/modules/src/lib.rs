//! The products on the engine.

pub mod alerts;
pub mod declaration;
pub mod depth;
pub mod http_call;
pub mod key_file;
pub mod only_object;
pub mod orders;
pub mod outbox;
mod outgoing;
pub mod randomness;
mod reading;
mod settings;
pub mod webhooks;

pub use reading::{nearest, shown_duration, written_duration};
