//! What the server, its clients and the products share: times on the wire, server-sent events, resource paths, and the
//! validation of requests.

pub mod path;
pub mod sse;
pub mod time;
pub mod validate;
