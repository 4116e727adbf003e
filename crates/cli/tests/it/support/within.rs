//! Waiting.

use std::time::Duration;

/// Far more than anything takes: what is not there by then never comes.
const WITHIN: Duration = backstitch_testkit::PATIENCE;

/// Waits for something that must come.
pub(crate) async fn within<T>(coming: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(WITHIN, coming).await;
    came.unwrap_or_else(|_| panic!("nothing came within {WITHIN:?}"))
}
