//! The products on the engine.
