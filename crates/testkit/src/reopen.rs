//! Reopens a SQLite file of an engine in the same process.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use backstitch::{Error, store};
use tokio::time::timeout;

use crate::PATIENCE;

/// Opens the file as soon as its lock is free. Reads on other threads hold the lock until they return, also after their
/// callers
/// were dropped.
///
/// # Panics
/// When the lock is not released, or the file cannot be opened for another reason.
pub async fn reopen<T>(open: impl AsyncFn() -> Result<T, Error>) -> T {
    reopen_while(is_in_use, open).await
}

/// The same for errors of another type: retries while `is_in_use` says that the lock is held.
///
/// # Panics
/// As [`reopen`] does.
pub async fn reopen_while<T, E: Debug>(
    is_in_use: impl Fn(&E) -> bool,
    open: impl AsyncFn() -> Result<T, E>,
) -> T {
    let opened = async {
        loop {
            match open().await {
                Err(error) if is_in_use(&error) => tokio::task::yield_now().await,
                opened => break opened,
            }
        }
    };
    timeout(PATIENCE, opened).await.expect("the lock of the file is released").expect("the file is opened")
}

/// Whether the file is locked.
#[must_use]
pub fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::Store(why) if matches!(&**why, store::Error::InUse(_)))
}
