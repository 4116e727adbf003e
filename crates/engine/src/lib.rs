//! Durable sagas.
