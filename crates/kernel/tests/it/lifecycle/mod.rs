//! Lifecycles from the outside, in one program because linking many takes longer than running them.

mod abandon;
mod actions;
mod audit;
mod check;
mod codec;
mod decide;
mod diagram;
mod everything;
mod support;
