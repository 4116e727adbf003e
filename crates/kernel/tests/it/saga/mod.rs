//! Tests of sagas by their public interface.

mod codec;
mod definition;
mod forward;
mod operations;
mod outside;
mod preview;
mod recovery;
mod rollback;
mod state;
mod support;
mod values;
