//! The products on the engine.

pub mod alerts;
