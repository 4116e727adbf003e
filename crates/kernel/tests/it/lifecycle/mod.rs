//! Tests of lifecycles by their public interface.

mod abandon;
mod actions;
mod audit;
mod check;
mod codec;
mod decide;
mod diagram;
mod everything;
mod support;
