//! What the server and its clients share: times on the wire, server-sent events and resource paths.

pub mod path;
pub mod sse;
pub mod time;
