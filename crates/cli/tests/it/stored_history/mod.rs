//! Stored history under every statement that another program could try, on both stores.

mod attempts;
mod postgres;
mod sqlite;
mod tables;
