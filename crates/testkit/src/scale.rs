//! The size of expensive tests: small in `./test`, large in `./soak`, which sets these variables.

use std::str::FromStr;

/// Rows in tests that compare the cost of a query on a small and on a large table.
#[must_use]
pub fn rows() -> i64 {
    setting("BACKSTITCH_ROWS", 10_000)
}

/// Processes that a kill loop kills.
#[must_use]
pub fn kills() -> usize {
    setting("BACKSTITCH_KILLS", 10)
}

/// Unfinished sagas that a node finds at startup.
#[must_use]
pub fn recovery_sagas() -> usize {
    setting("BACKSTITCH_RECOVERY_SAGAS", 10_000)
}

/// Requests that the fuzzer generates for each operation.
#[must_use]
pub fn fuzz_examples() -> u32 {
    setting("BACKSTITCH_FUZZ_EXAMPLES", 2)
}

/// Whether tests cover every role, page and screen size.
#[must_use]
pub fn is_soak() -> bool {
    std::env::var_os("BACKSTITCH_SOAK").is_some()
}

/// The seed of tests with random choices; fixed in `./test`, so a failure can be repeated.
#[must_use]
pub fn seed(default: u64) -> u64 {
    setting("BACKSTITCH_SEED", default)
}

/// # Panics
/// When the variable is no number: a soak run must not silently be a small one.
fn setting<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}
