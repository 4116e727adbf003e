//! Where items of webhooks are parked that the database rejects.

/// Results of attempts, by the number of their job.
pub const RESULTS: &str = "webhook_results";
/// Deliveries whose next attempt is due.
pub const DELIVERIES: &str = "webhook_deliveries";
/// Jobs that are leased, reported about, whose lease is over, or whose subscription is deleted.
pub const JOBS: &str = "webhook_jobs";
/// Deliveries that are old enough to be removed.
pub const DELIVERY_RETENTION: &str = "webhook_delivery_retention";
/// Events that are old enough to be removed.
pub const EVENT_RETENTION: &str = "webhook_event_retention";
