//! Where items of lifecycles are parked that the database rejects.

/// Instances whose action is due, or whose answer cannot be kept.
pub const ACTIONS: &str = "lifecycle_actions";
/// Jobs of workers who are gone.
pub const JOBS: &str = "lifecycle_jobs";
/// Instances that are old enough to be removed.
pub const RETENTION: &str = "lifecycle_retention";
/// Dead letters that are old enough to be removed.
pub const LETTER_RETENTION: &str = "lifecycle_letter_retention";
