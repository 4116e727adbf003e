//! The client side of the API: requests and output.

mod ago;
pub(crate) mod client;
pub(crate) mod event;
pub(crate) mod follow;
pub(crate) mod listing;
mod near;
pub(crate) mod output;
mod problem;
mod progress;
pub(crate) mod saga_id;
mod session;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod text;

pub(crate) use client::{ApiResponse, Ask, segment};
pub(crate) use near::{unknown_definition, unknown_saga};
pub(crate) use session::{Session, Target, in_file};
