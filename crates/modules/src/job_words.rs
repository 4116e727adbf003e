//! The words that the table of jobs has for where they stand.

use backstitch::kernel::lease;

/// The word for a job's status.
pub(crate) fn job_word(status: lease::Status) -> &'static str {
    match status {
        lease::Status::Pending => "Pending",
        lease::Status::Leased => "Leased",
        lease::Status::Completed => "Completed",
        lease::Status::Failed => "Failed",
    }
}

/// The status of a job of this word; the table's check leaves no other.
pub(crate) fn job_status(word: &str) -> lease::Status {
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
        for status in [Pending, Leased, Completed, Failed] {
            assert_eq!(job_status(job_word(status)), status);
        }
    }
}
