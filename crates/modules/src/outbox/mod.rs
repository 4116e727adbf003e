//! The outbox as a product: order requests, and where messages go.

mod differences;
mod do_order;

pub use do_order::{Answer, Conflict, ORDERS, OrderRequest, Unreadable};
