//! The products on both stores.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod archive;
mod declaration;
mod http_call;
mod lifecycle_declaration;
mod lifecycle_nats;
mod lifecycles;
mod orders;
mod outbox_adapters;
mod webhook_sender;
mod webhooks;
