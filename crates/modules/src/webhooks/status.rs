//! The words that the tables have for where deliveries stand.

use backstitch::kernel::delivery;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_read_as_it_is_written() {
        for status in delivery::Status::ALL {
            assert_eq!(delivery_status(delivery_word(status)), Some(status));
        }
        assert_eq!(delivery_status("pending"), None);
    }
}
