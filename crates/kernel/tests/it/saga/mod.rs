//! The kernel from the outside, in one program because linking many takes longer than running them.

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
