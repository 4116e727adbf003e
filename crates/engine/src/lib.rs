//! Durable sagas.

pub mod clock;
pub mod inbox;
pub mod store;

pub use backstitch_kernel as kernel;
