//! Stored history under every statement that any program could try on it, on both stores.

mod attempts;
mod postgres;
mod sqlite;
mod tables;
