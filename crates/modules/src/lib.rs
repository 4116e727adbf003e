//! The products on the engine.

pub mod alerts;
pub mod archive;
pub mod declaration;
pub mod depth;
pub mod http_call;
pub mod http_url;
pub mod key_file;
pub mod lifecycles;
mod masked_url;
pub mod orders;
pub mod outbox;
mod outgoing;
mod question;
pub mod randomness;
pub mod readable;
mod retention;
pub mod secret_store;
mod settings;
pub mod webhooks;

pub use masked_url::masked_url;
