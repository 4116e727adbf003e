//! The log: every alert is there, whatever else is set.

use async_trait::async_trait;
use backstitch::Timestamp;

use super::{Alert, Channel};
use crate::alerts::text;

/// Characters of an error that the log shows.
const ERROR_IN_LOG: usize = 2_000;

pub(super) struct Log;

#[async_trait]
impl Channel for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    async fn deliver(&self, alert: &Alert, _now: Timestamp) -> Result<(), String> {
        tracing::error!(
            key = %text::one_line(&alert.key, ERROR_IN_LOG),
            error = %text::one_line(&alert.error.message, ERROR_IN_LOG),
            code = alert.error.code.as_deref().map(|code| text::one_line(code, ERROR_IN_LOG)),
            occurred_at = %text::rfc3339(alert.occurred_at),
            "{}",
            text::headline(alert)
        );
        Ok(())
    }
}
