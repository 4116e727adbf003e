//! Reopens a SQLite file of an engine in the same process.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use backstitch::Error;
use backstitch::store;
use tokio::time::timeout;

use crate::PATIENCE;

/// Opens the file as soon as its lock is free. Reads on other threads hold the lock until they return, also after their
/// callers
/// were dropped.
///
/// # Panics
/// When the lock is not released, or the file cannot be opened for another reason.
pub async fn reopen<T>(open: impl AsyncFn() -> Result<T, Error>) -> T {
    let opened = async {
        loop {
            match open().await {
                Err(Error::Store(why)) if matches!(&*why, store::Error::InUse(_)) => {
                    tokio::task::yield_now().await;
                }
                opened => break opened,
            }
        }
    };
    timeout(PATIENCE, opened).await.expect("the lock of the file is released").expect("the file is opened")
}
