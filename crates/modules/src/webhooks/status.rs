//! The words that the tables have for where deliveries and jobs stand.

use backstitch::kernel::delivery;
use backstitch::kernel::lease;

/// The word for a delivery's status.
#[must_use]
pub fn delivery_word(status: delivery::Status) -> &'static str {
    match status {
        delivery::Status::Pending => "Pending",
        delivery::Status::InProgress => "InProgress",
        delivery::Status::PendingRetry => "PendingRetry",
        delivery::Status::Completed => "Completed",
        delivery::Status::DeadLettered => "DeadLettered",
    }
}

/// The status of this word.
#[must_use]
pub fn delivery_status(word: &str) -> Option<delivery::Status> {
    delivery::Status::ALL.into_iter().find(|status| delivery_word(*status) == word)
}

/// The word for a job's status.
pub(super) fn job_word(status: lease::Status) -> &'static str {
    match status {
        lease::Status::Pending => "Pending",
        lease::Status::Leased => "Leased",
        lease::Status::Completed => "Completed",
        lease::Status::Failed => "Failed",
    }
}

/// The status of a job of this word; the table's check leaves no other.
pub(super) fn job_status(word: &str) -> lease::Status {
    match word {
        "Pending" => lease::Status::Pending,
        "Leased" => lease::Status::Leased,
        "Completed" => lease::Status::Completed,
        _ => lease::Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_read_as_it_is_written() {
        use lease::Status::{Completed, Failed, Leased, Pending};
        for status in delivery::Status::ALL {
            assert_eq!(delivery_status(delivery_word(status)), Some(status));
        }
        assert_eq!(delivery_status("pending"), None);
        for status in [Pending, Leased, Completed, Failed] {
            assert_eq!(job_status(job_word(status)), status);
        }
    }
}
