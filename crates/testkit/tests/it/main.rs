//! Tests of stores, faults, kills, documents and style.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acceptance_seed_002;
mod announced;
mod conformance;
mod declared_sagas;
mod differential;
mod disk_full;
mod documents;
mod drained;
mod engine_faults;
mod examples;
mod full_hosts;
mod kernel_journals;
mod kernel_properties;
mod kernel_scripts;
mod kill_postgres;
mod kill_sqlite;
mod nodes_postgres;
mod parked;
mod planted_bugs;
mod postgres_store;
mod previewed_cancels;
mod product_rows;
mod pruning;
mod recovery_postgres;
mod recovery_sqlite;
mod repository;
mod requirements;
mod skewed_nodes;
mod sql;
mod sqlite_store;
mod stalled_stores;
mod start_in_transaction;
mod test_command;
mod throwaway_nats;
mod throwaway_postgres;
mod tidy;
